/* Makes file operations of a process below $FAULT_FOLDER fail, as on a full or broken disk, while the file
 * $FAULT_CONTROL exists. Preloaded into the server.
 *
 * The control file contains the fields "kinds errno free part", for example "wsc 28 -1 0". `kinds` lists the kinds of
 * operations: w writing (half of the requested bytes are written first), p writing (the first `part` bytes reach the
 * file, and the operation fails as if none had), t changing the size, s syncing, c creating or renaming, r reading.
 * `free` is the number of free bytes that the file system reports, or -1 for the real number. */

#include "preload.h"
#include <sys/statvfs.h>

static char folder[PATH_MAX];
static size_t folder_len;
static const char *control;

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("FAULT_FOLDER");
    control = getenv("FAULT_CONTROL");
    if (path && control && realpath(path, folder))
        folder_len = strlen(folder);
}

struct order {
    char kinds[16];
    int error;
    long long free;
    long long part;
};

/* Reads the control file, if it exists. */
static int ordered(struct order *order)
{
    char text[128];
    if (folder_len == 0)
        return 0;
    int fd = REAL(open)(control, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = REAL(read)(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return 0;
    text[length] = 0;
    return sscanf(text, "%15s %d %lld %lld", order->kinds, &order->error, &order->free, &order->part) == 4;
}

static int is_below(const char *path)
{
    return strncmp(path, folder, folder_len) == 0 && (path[folder_len] == '/' || path[folder_len] == 0);
}

/* Returns whether an operation of this kind on an open file must fail, and how; sets errno. */
static int fails_as(int fd, char kind, struct order *order)
{
    char link[64], path[PATH_MAX];
    int before = errno;
    if (folder_len == 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    int failing = is_below(path) && ordered(order) && strchr(order->kinds, kind);
    errno = failing ? order->error : before;
    return failing;
}

static int fails(int fd, char kind)
{
    struct order order;
    return fails_as(fd, kind, &order);
}

/* Does the same for an absolute path; all paths of the server's data folder are absolute in the tests. */
static int path_fails(const char *path, char kind)
{
    struct order order;
    int before = errno;
    int failing = folder_len && is_below(path) && ordered(&order) && strchr(order.kinds, kind);
    errno = failing ? order.error : before;
    return failing;
}

ssize_t write(int fd, const void *data, size_t size)
{
    struct order order;
    if (fails_as(fd, 'p', &order)) {
        size_t part = (size_t)order.part < size ? (size_t)order.part : size;
        if (part > 0 && REAL(write)(fd, data, part) < 0)
            return -1;
        errno = order.error;
        return -1;
    }
    if (!fails(fd, 'w'))
        return REAL(write)(fd, data, size);
    return size > 1 ? REAL(write)(fd, data, size / 2) : -1;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return fails(fd, 'w') ? -1 : REAL(writev)(fd, parts, count);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return fails(fd, 'w') ? -1 : REAL(pwrite)(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return fails(fd, 'w') ? -1 : REAL(pwrite64)(fd, data, size, at); }
ssize_t read(int fd, void *data, size_t size) { return fails(fd, 'r') ? -1 : REAL(read)(fd, data, size); }
ssize_t pread(int fd, void *data, size_t size, off_t at) { return fails(fd, 'r') ? -1 : REAL(pread)(fd, data, size, at); }
ssize_t pread64(int fd, void *data, size_t size, off64_t at) { return fails(fd, 'r') ? -1 : REAL(pread64)(fd, data, size, at); }
int ftruncate(int fd, off_t size) { return fails(fd, 't') ? -1 : REAL(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { return fails(fd, 't') ? -1 : REAL(ftruncate64)(fd, size); }
int fsync(int fd) { return fails(fd, 's') ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fails(fd, 's') ? -1 : REAL(fdatasync)(fd); }
int rename(const char *from, const char *to) { return path_fails(to, 'c') ? -1 : REAL(rename)(from, to); }
int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return path_fails(to, 'c') ? -1 : REAL(renameat)(from_dir, from, to_dir, to);
}

static int opened(int dir, const char *path, int flags, mode_t mode)
{
    return (flags & O_CREAT) && path_fails(path, 'c') ? -1 : REAL(openat)(dir, path, flags, mode);
}

#define FREE(answer, call)                                                                                             \
    struct order order;                                                                                                \
    int result = call;                                                                                                 \
    if (result == 0 && ordered(&order) && order.free >= 0)                                                             \
        answer->f_bavail = order.free / answer->f_frsize;                                                              \
    return result;

int statvfs(const char *path, struct statvfs *answer) { FREE(answer, REAL(statvfs)(path, answer)) }
int statvfs64(const char *path, struct statvfs64 *answer) { FREE(answer, REAL(statvfs64)(path, answer)) }
