/* What the libraries that are preloaded into the server share. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* The function of this name that would have been called. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* All ways to open a file come here; each library says what becomes of it. */
static int opened(int dir, const char *path, int flags, mode_t mode);

#define MODE(flags, mode)                                                                                              \
    mode_t mode = 0;                                                                                                   \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                               \
        va_list arguments;                                                                                             \
        va_start(arguments, flags);                                                                                    \
        mode = va_arg(arguments, mode_t);                                                                              \
        va_end(arguments);                                                                                             \
    }

int open(const char *path, int flags, ...) { MODE(flags, mode) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, mode) return opened(AT_FDCWD, path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE(flags, mode) return opened(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE(flags, mode) return opened(dir, path, flags, mode); }
