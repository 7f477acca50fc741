/* Records in $WATCH_LOG what a process does to the files below $WATCHED_FOLDER, in the order in which it happened.
 * Preloaded into the server, so that a test can compute what a power loss would have left.
 *
 * A record: kind (1 byte), path length (4), offset (8), data length (4), path, data; numbers in native byte order.
 * A record is written after its call, so every recorded operation has happened. One lock covers a call and its
 * record. */

#include "preload.h"
#include <stdint.h>

enum kind { CREATE = 1, WRITE = 2, TRUNCATE = 3, SYNC = 4, RENAME = 5, UNLINK = 6, MKDIR = 7, RMDIR = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static size_t folder_len;
static int log_fd = -1;

static void fail(const char *what)
{
    fprintf(stderr, "watch.c: %s: %s\n", what, strerror(errno));
    _exit(99);
}

__attribute__((constructor)) static void start(void)
{
    const char *watched = getenv("WATCHED_FOLDER"), *log = getenv("WATCH_LOG");
    if (!watched || !log)
        return;
    if (!realpath(watched, folder))
        fail("WATCHED_FOLDER");
    folder_len = strlen(folder);
    log_fd = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0)
        fail("WATCH_LOG");
}

/* Stores the absolute form of a path whose folder exists in `out`; returns whether it is below the watched folder. */
static int watched_path(int dir, const char *path, char out[PATH_MAX])
{
    char copy[PATH_MAX], parent[PATH_MAX], base[PATH_MAX];
    if (log_fd < 0 || strlen(path) >= PATH_MAX / 2)
        return 0;
    if (path[0] != '/' && dir != AT_FDCWD) {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0)
            return 0;
        base[length] = 0;
        if (snprintf(copy, sizeof copy, "%s/%s", base, path) >= (int)sizeof copy)
            return 0;
    } else {
        strcpy(copy, path);
    }
    char *slash = strrchr(copy, '/');
    const char *name = slash ? slash + 1 : copy;
    if (slash)
        *slash = 0;
    if (!realpath(slash ? (slash == copy ? "/" : copy) : ".", parent))
        return 0;
    if (snprintf(out, PATH_MAX, "%s/%s", parent, name) >= PATH_MAX)
        return 0;
    return strncmp(out, folder, folder_len) == 0 && out[folder_len] == '/';
}

/* Stores the path of an open file; returns whether it is the watched folder or below it. */
static int watched_fd(int fd, char out[PATH_MAX])
{
    char link[64];
    if (log_fd < 0 || fd == log_fd)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    if (length < 0)
        return 0;
    out[length] = 0;
    const char *deleted = " (deleted)";
    size_t tail = strlen(deleted);
    if ((size_t)length > tail && strcmp(out + length - tail, deleted) == 0)
        return 0;
    return strncmp(out, folder, folder_len) == 0 && (out[folder_len] == '/' || out[folder_len] == 0);
}

static void record(enum kind kind, const char *path, uint64_t offset, const void *data, size_t size)
{
    unsigned char head[17];
    uint32_t path_len = strlen(path), data_len = size;
    head[0] = kind;
    memcpy(head + 1, &path_len, 4);
    memcpy(head + 5, &offset, 8);
    memcpy(head + 13, &data_len, 4);
    struct iovec parts[] = {{head, sizeof head}, {(void *)path, path_len}, {(void *)data, size}};
    if (REAL(writev)(log_fd, parts, 3) != (ssize_t)(sizeof head + path_len + size))
        fail("writing the log");
}

static int opened(int dir, const char *path, int flags, mode_t mode)
{
    char full[PATH_MAX];
    int watched = (flags & (O_CREAT | O_TRUNC)) && watched_path(dir, path, full);
    if (!watched)
        return REAL(openat)(dir, path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat before;
    int existed = stat(full, &before) == 0;
    int fd = REAL(openat)(dir, path, flags, mode);
    int error = errno;
    if (fd >= 0 && !existed)
        record(CREATE, full, 0, NULL, 0);
    else if (fd >= 0 && (flags & O_TRUNC))
        record(TRUNCATE, full, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

/* Returns the position of the next write to a file without an explicit offset. */
static off_t position(int fd)
{
    struct stat file;
    if (fcntl(fd, F_GETFL) & O_APPEND)
        return fstat(fd, &file) == 0 ? file.st_size : 0;
    return lseek(fd, 0, SEEK_CUR);
}

#define WRITTEN(fd, at, parts, count, call)                                                                            \
    char path[PATH_MAX];                                                                                               \
    if (!watched_fd(fd, path))                                                                                         \
        return call;                                                                                                   \
    pthread_mutex_lock(&lock);                                                                                         \
    off_t offset = at;                                                                                                 \
    ssize_t written = call;                                                                                            \
    int error = errno;                                                                                                 \
    ssize_t left = written;                                                                                            \
    for (int i = 0; i < count && left > 0; i++) {                                                                      \
        size_t size = (size_t)left < parts[i].iov_len ? (size_t)left : parts[i].iov_len;                               \
        record(WRITE, path, offset, parts[i].iov_base, size);                                                          \
        offset += size;                                                                                                \
        left -= size;                                                                                                  \
    }                                                                                                                  \
    pthread_mutex_unlock(&lock);                                                                                       \
    errno = error;                                                                                                     \
    return written;

ssize_t write(int fd, const void *data, size_t size)
{
    struct iovec part[] = {{(void *)data, size}};
    WRITTEN(fd, position(fd), part, 1, REAL(write)(fd, data, size))
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    WRITTEN(fd, position(fd), parts, count, REAL(writev)(fd, parts, count))
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    struct iovec part[] = {{(void *)data, size}};
    WRITTEN(fd, at, part, 1, REAL(pwrite)(fd, data, size, at))
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    struct iovec part[] = {{(void *)data, size}};
    WRITTEN(fd, at, part, 1, REAL(pwrite64)(fd, data, size, at))
}

#define CHANGED(fd, kind, offset, call)                                                                                \
    char path[PATH_MAX];                                                                                               \
    if (!watched_fd(fd, path))                                                                                         \
        return call;                                                                                                   \
    pthread_mutex_lock(&lock);                                                                                         \
    int result = call, error = errno;                                                                                  \
    if (result == 0)                                                                                                   \
        record(kind, path, offset, NULL, 0);                                                                           \
    pthread_mutex_unlock(&lock);                                                                                       \
    errno = error;                                                                                                     \
    return result;

int ftruncate(int fd, off_t size) { CHANGED(fd, TRUNCATE, size, REAL(ftruncate)(fd, size)) }
int ftruncate64(int fd, off64_t size) { CHANGED(fd, TRUNCATE, size, REAL(ftruncate64)(fd, size)) }
int fsync(int fd) { CHANGED(fd, SYNC, 0, REAL(fsync)(fd)) }
int fdatasync(int fd) { CHANGED(fd, SYNC, 0, REAL(fdatasync)(fd)) }

#define NAMED(dir, path, kind, call)                                                                                   \
    char full[PATH_MAX];                                                                                               \
    if (!watched_path(dir, path, full))                                                                                \
        return call;                                                                                                   \
    pthread_mutex_lock(&lock);                                                                                         \
    int result = call, error = errno;                                                                                  \
    if (result == 0)                                                                                                   \
        record(kind, full, 0, NULL, 0);                                                                                \
    pthread_mutex_unlock(&lock);                                                                                       \
    errno = error;                                                                                                     \
    return result;

int unlink(const char *path) { NAMED(AT_FDCWD, path, UNLINK, REAL(unlink)(path)) }
int rmdir(const char *path) { NAMED(AT_FDCWD, path, RMDIR, REAL(rmdir)(path)) }
int mkdir(const char *path, mode_t mode) { NAMED(AT_FDCWD, path, MKDIR, REAL(mkdir)(path, mode)) }
int unlinkat(int dir, const char *path, int flags)
{
    NAMED(dir, path, flags & AT_REMOVEDIR ? RMDIR : UNLINK, REAL(unlinkat)(dir, path, flags))
}

static int renamed(const char *from, const char *to, int result, int error, const char *full_from, const char *full_to)
{
    (void)from, (void)to;
    if (result == 0)
        record(RENAME, full_from, 0, full_to, strlen(full_to));
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int rename(const char *from, const char *to)
{
    char full_from[PATH_MAX], full_to[PATH_MAX];
    if (!watched_path(AT_FDCWD, from, full_from) || !watched_path(AT_FDCWD, to, full_to))
        return REAL(rename)(from, to);
    pthread_mutex_lock(&lock);
    int result = REAL(rename)(from, to);
    return renamed(from, to, result, errno, full_from, full_to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    char full_from[PATH_MAX], full_to[PATH_MAX];
    if (!watched_path(from_dir, from, full_from) || !watched_path(to_dir, to, full_to))
        return REAL(renameat)(from_dir, from, to_dir, to);
    pthread_mutex_lock(&lock);
    int result = REAL(renameat)(from_dir, from, to_dir, to);
    return renamed(from, to, result, errno, full_from, full_to);
}
