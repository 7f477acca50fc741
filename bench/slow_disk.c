/* Delays every sync of a program, to simulate a slower disk:
 *
 *   cc -O2 -shared -fPIC -o slow_disk.so bench/slow_disk.c
 *   SLOW_DISK_MICROSECONDS=120 LD_PRELOAD=./slow_disk.so target/release/rowhouse serve
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

/* As with any sleep, this takes about 60 microseconds longer than requested. */
static void wait_for_disk(void) {
    const char *text = getenv("SLOW_DISK_MICROSECONDS");
    long microseconds = text ? atol(text) : 0;
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    if (microseconds > 0) nanosleep(&time, NULL);
}

int fdatasync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_for_disk();
    return real(file);
}

int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_for_disk();
    return real(file);
}
