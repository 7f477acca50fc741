/* A simulated disk: records what a process does to the files below $DISK_FOLDER, and makes some of it go wrong.
 * Preloaded into the server, so that a test can compute what a power loss would have left, and inject faults.
 *
 * The record goes to $DISK_LOG, if set. An entry: kind (1 byte), path length (4), offset (8), data length (4), path,
 * data; numbers in native byte order. An entry is written after its call and describes what really happened. One lock
 * covers a call and its entry. With a record, a sync succeeds without a call, because the record stands for the disk.
 *
 * The file $DISK_CONTROL, while it exists, orders faults. Each line contains "kinds errno free part one_in", for
 * example "wsc 28 -1 0 1", and applies to one in `one_in` operations of these kinds, chosen from $DISK_SEED:
 *   w  half of a write reaches the file, or it fails    p  `part` bytes of a write reach the file, and it fails
 *   l  a write is lost, but reported as successful      m  the same, and it overwrites a random place in some file
 *   s  a sync fails; the data can still be read         e  a sync fails, and the data can no longer be read
 *   t  changing a size fails      c  creating or renaming fails      r  reading fails
 *   d  a write or sync takes `part` milliseconds, or with 0, until the order ends
 *   b  the same for reading
 * `free` is the number of free bytes that the file system reports, or -1 for the real number.
 * A sixth field restricts an order to paths with this ending. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

/* The function of this name that would have been called. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum kind { CREATE = 1, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, RMDIR, FAILED_SYNC, FAULT };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static size_t folder_len;
static const char *control;
static int log_fd = -1;
static uint64_t seed, draws;

/* A part of a file that was written since the last sync, and the bytes that it had on disk before. What lies beyond the
 * end of the file was not there. */
struct piece {
    struct piece *earlier;
    off_t at;
    size_t size, old_size;
    char old[];
};

static struct unsynced {
    ino_t file;
    struct piece *last;
} unsynced[64];
static unsigned unsynced_count;

/* The files that were written last, as targets of misdirected writes. */
static char recent[16][PATH_MAX];
static unsigned recent_count;

static void fail(const char *what)
{
    fprintf(stderr, "disk.c: %s: %s\n", what, strerror(errno));
    _exit(99);
}

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("DISK_FOLDER"), *log = getenv("DISK_LOG"), *number = getenv("DISK_SEED");
    if (!path)
        return;
    if (!realpath(path, folder))
        fail("DISK_FOLDER");
    control = getenv("DISK_CONTROL");
    seed = number ? strtoull(number, NULL, 10) : 0;
    if (log && (log_fd = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0)
        fail("DISK_LOG");
    folder_len = strlen(folder);
}

/* Returns a random number below the bound (SplitMix64). */
static uint64_t below(uint64_t bound)
{
    uint64_t z = seed + __atomic_add_fetch(&draws, 1, __ATOMIC_RELAXED) * 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) % bound;
}

struct order {
    char kinds[16];
    int error;
    long long free, part, one_in;
    char ending[64];
};

static int ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), end = strlen(ending);
    return length >= end && strcmp(path + length - end, ending) == 0;
}

/* Returns the first of the given kinds of faults that is ordered now, or 0. With no kinds, returns whether a number of
 * free bytes is ordered. */
static char ordered(const char *kinds, const char *path, struct order *order)
{
    char text[512], *line, *rest = text;
    int fd = folder_len && control ? REAL(open)(control, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t length = fd < 0 ? 0 : REAL(read)(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length < 0 ? 0 : length] = 0;
    while ((line = strsep(&rest, "\n"))) {
        order->ending[0] = 0;
        int fields = sscanf(line, "%15s %d %lld %lld %lld %63s", order->kinds, &order->error, &order->free,
                            &order->part, &order->one_in, order->ending);
        if (fields < 5 || !ends_with(path, order->ending))
            continue;
        const char *found = strpbrk(kinds, order->kinds);
        if (found && below(order->one_in) == 0)
            return *found;
        if (!*kinds && order->free >= 0)
            return 1;
    }
    return 0;
}

static int is_below(const char *path)
{
    return folder_len && strncmp(path, folder, folder_len) == 0 && (path[folder_len] == '/' || path[folder_len] == 0);
}

/* Stores the path of an open file; returns whether it is the folder or below it. */
static int path_of(int fd, char out[PATH_MAX])
{
    char link[64];
    if (folder_len == 0 || fd == log_fd)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    out[length < 0 ? 0 : length] = 0;
    const char *deleted = " (deleted)";
    size_t tail = strlen(deleted);
    return is_below(out) && !((size_t)length > tail && strcmp(out + length - tail, deleted) == 0);
}

/* Stores the absolute form of a path whose folder exists; returns whether it is below the folder. */
static int full_path(int dir, const char *path, char out[PATH_MAX])
{
    char copy[PATH_MAX], parent[PATH_MAX], base[PATH_MAX] = "";
    if (folder_len == 0 || strlen(path) >= PATH_MAX / 2)
        return 0;
    if (path[0] != '/' && dir != AT_FDCWD) {
        if (!path_of(dir, base))
            return 0;
        strcat(base, "/");
    }
    if (snprintf(copy, sizeof copy, "%s%s", base, path) >= (int)sizeof copy)
        return 0;
    char *slash = strrchr(copy, '/');
    const char *name = slash ? slash + 1 : copy;
    if (slash)
        *slash = 0;
    if (!realpath(slash ? (slash == copy ? "/" : copy) : ".", parent))
        return 0;
    return snprintf(out, PATH_MAX, "%s/%s", parent, name) < PATH_MAX && is_below(out);
}

static void record(enum kind kind, const char *path, uint64_t offset, const void *data, size_t size)
{
    unsigned char head[17] = {kind};
    uint32_t path_len = strlen(path), data_len = size;
    if (log_fd < 0)
        return;
    memcpy(head + 1, &path_len, 4);
    memcpy(head + 5, &offset, 8);
    memcpy(head + 13, &data_len, 4);
    struct iovec parts[] = {{head, sizeof head}, {(void *)path, path_len}, {(void *)data, size}};
    if (REAL(writev)(log_fd, parts, 3) != (ssize_t)(sizeof head + path_len + size))
        fail("writing the log");
}

/* Returns the fault of one of these kinds that is to happen now, after recording it, or 0. */
static char fault(const char *kinds, const char *path, struct order *order)
{
    char kind = ordered(kinds, path, order);
    if (kind)
        record(FAULT, path, 0, &kind, 1);
    return kind;
}

/* Waits without the lock, so that only the calling thread is delayed. */
static void stall(const char *kind, const char *path)
{
    struct order order;
    if (!fault(kind, path, &order))
        return;
    for (long long waited = 0; order.part ? waited < order.part : ordered(kind, path, &order); waited += 5)
        usleep(5000);
}

/* Releases the lock and returns the result of a call, with its error. */
static long finish(long result, int error)
{
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

static void forget(struct unsynced *entry)
{
    while (entry->last) {
        struct piece *piece = entry->last;
        entry->last = piece->earlier;
        free(piece);
    }
}

/* Returns what was written to a file since its last sync. Of the files that were used least recently, nothing is known. */
static struct unsynced *unsynced_of(int fd)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        fail("fstat");
    for (size_t i = 0; i < 64; i++)
        if (unsynced[i].file == file.st_ino)
            return &unsynced[i];
    struct unsynced *entry = &unsynced[unsynced_count++ % 64];
    forget(entry);
    entry->file = file.st_ino;
    return entry;
}

/* Returns the bytes that a write is about to replace. The descriptor may not be readable. */
static struct piece *before_write(const char *path, off_t at, size_t size)
{
    struct stat file;
    int fd = REAL(open)(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &file) != 0)
        fail("opening a file that is written");
    size_t old_size = file.st_size <= at ? 0 : file.st_size - at < (off_t)size ? (size_t)(file.st_size - at) : size;
    struct piece *piece = malloc(sizeof *piece + old_size);
    if (!piece || REAL(pread)(fd, piece->old, old_size, at) != (ssize_t)old_size)
        fail("reading a file that is written");
    close(fd);
    piece->at = at;
    piece->old_size = old_size;
    return piece;
}

/* All ways to open a file come here. */
static int opened(int dir, const char *path, int flags, mode_t mode)
{
    char full[PATH_MAX];
    struct order order;
    struct stat before;
    if (!(flags & (O_CREAT | O_TRUNC)) || !full_path(dir, path, full))
        return REAL(openat)(dir, path, flags, mode);
    pthread_mutex_lock(&lock);
    if ((flags & O_CREAT) && fault("c", full, &order))
        return finish(-1, order.error);
    int existed = stat(full, &before) == 0;
    int fd = REAL(openat)(dir, path, flags, mode), error = errno;
    if (fd >= 0 && (!existed || (flags & O_TRUNC))) {
        forget(unsynced_of(fd));
        record(existed ? TRUNCATE : CREATE, full, 0, NULL, 0);
    }
    return finish(fd, error);
}

#define OPEN(dir, path, flags)                                                                                         \
    mode_t mode = 0;                                                                                                   \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                               \
        va_list arguments;                                                                                             \
        va_start(arguments, flags);                                                                                    \
        mode = va_arg(arguments, mode_t);                                                                              \
        va_end(arguments);                                                                                             \
    }                                                                                                                  \
    return opened(dir, path, flags, mode);

int open(const char *path, int flags, ...) { OPEN(AT_FDCWD, path, flags) }
int open64(const char *path, int flags, ...) { OPEN(AT_FDCWD, path, flags) }
int openat(int dir, const char *path, int flags, ...) { OPEN(dir, path, flags) }
int openat64(int dir, const char *path, int flags, ...) { OPEN(dir, path, flags) }

/* Returns the position of the next write to a file without an explicit offset. */
static off_t position(int fd)
{
    struct stat file;
    if (fcntl(fd, F_GETFL) & O_APPEND)
        return fstat(fd, &file) == 0 ? file.st_size : 0;
    return lseek(fd, 0, SEEK_CUR);
}

/* Does not write, but leaves the file as long and its position as far as if it had. */
static void lose(int fd, const char *path, off_t end, int moves)
{
    struct stat file;
    if (moves)
        lseek(fd, end, SEEK_SET);
    if (fstat(fd, &file) == 0 && file.st_size < end && REAL(ftruncate)(fd, end) == 0)
        record(TRUNCATE, path, end, NULL, 0);
}

static void record_parts(const char *path, const struct iovec *parts, off_t at, ssize_t written)
{
    for (; written > 0; written -= parts->iov_len, at += parts->iov_len, parts++)
        record(WRITE, path, at, parts->iov_base, (size_t)written < parts->iov_len ? (size_t)written : parts->iov_len);
}

/* Overwrites a sector-aligned place inside a file that was written recently. */
static void misdirect(const struct iovec *parts, int count)
{
    const char *path = recent[below(recent_count < 16 ? recent_count : 16)];
    struct stat file;
    int fd = REAL(open)(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    off_t at = fstat(fd, &file) == 0 ? below(file.st_size / 512 + 1) * 512 : 0;
    record_parts(path, parts, at, REAL(pwritev)(fd, parts, count, at));
    close(fd);
}

/* All ways to write come here. A negative offset stands for the file's position. */
static ssize_t put(int fd, const struct iovec *all, int count, off_t at)
{
    char path[PATH_MAX];
    struct order order;
    int moves = at < 0;
    if (!path_of(fd, path))
        return moves ? REAL(writev)(fd, all, count) : REAL(pwritev)(fd, all, count, at);
    stall("d", path);
    struct iovec parts[count];
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += all[i].iov_len;
    pthread_mutex_lock(&lock);
    if (moves)
        at = position(fd);
    strcpy(recent[recent_count++ % 16], path);
    size_t allowed = size;
    char kind = fault("wplm", path, &order);
    if (kind == 'w')
        allowed = size / 2;
    else if (kind == 'p' && (size_t)order.part < size)
        allowed = order.part;
    else if (kind == 'm')
        misdirect(all, count);
    if (kind == 'l' || kind == 'm') {
        lose(fd, path, at + size, moves);
        return finish(size, 0);
    }
    size_t left = allowed;
    for (int i = 0; i < count; left -= parts[i++].iov_len)
        parts[i] = (struct iovec){all[i].iov_base, all[i].iov_len < left ? all[i].iov_len : left};
    ssize_t written = 0;
    struct piece *piece = log_fd < 0 ? NULL : before_write(path, at, allowed);
    if (allowed > 0 || size == 0)
        written = moves ? REAL(writev)(fd, parts, count) : REAL(pwritev)(fd, parts, count, at);
    int error = errno;
    record_parts(path, parts, at, written);
    if (piece && written > 0) {
        struct unsynced *entry = unsynced_of(fd);
        piece->size = written;
        piece->earlier = entry->last;
        entry->last = piece;
    } else {
        free(piece);
    }
    return kind == 'p' || (kind && allowed == 0) ? finish(-1, order.error) : finish(written, error);
}

#define PUT(fd, data, size, at)                                                                                        \
    struct iovec part = {(void *)data, size};                                                                          \
    return put(fd, &part, 1, at);

ssize_t write(int fd, const void *data, size_t size) { PUT(fd, data, size, -1) }
ssize_t writev(int fd, const struct iovec *parts, int count) { return put(fd, parts, count, -1); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { PUT(fd, data, size, at) }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { PUT(fd, data, size, at) }

static int reading_fails(int fd)
{
    char path[PATH_MAX];
    struct order order;
    if (!control || !path_of(fd, path))
        return 0;
    stall("b", path);
    if (!ordered("r", path, &order))
        return 0;
    errno = order.error;
    return 1;
}

ssize_t read(int fd, void *data, size_t size) { return reading_fails(fd) ? -1 : REAL(read)(fd, data, size); }
ssize_t pread(int fd, void *data, size_t size, off_t at)
{
    return reading_fails(fd) ? -1 : REAL(pread)(fd, data, size, at);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t at) { return pread(fd, data, size, at); }

int ftruncate(int fd, off_t size)
{
    char path[PATH_MAX];
    struct order order;
    if (!path_of(fd, path))
        return REAL(ftruncate)(fd, size);
    pthread_mutex_lock(&lock);
    if (fault("t", path, &order))
        return finish(-1, order.error);
    int result = REAL(ftruncate)(fd, size), error = errno;
    if (result == 0)
        record(TRUNCATE, path, size, NULL, 0);
    return finish(result, error);
}

int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

/* Replaces data that a failed sync has dropped by what is on disk: what was there before, or zeros. */
static void evict(const char *path, struct unsynced *entry)
{
    static const char zeros[65536];
    int fd = REAL(open)(path, O_WRONLY | O_CLOEXEC);
    for (struct piece *piece = entry->last; fd >= 0 && piece; piece = piece->earlier) {
        for (size_t done = 0, size; done < piece->size; done += size) {
            int is_old = done < piece->old_size;
            size_t left = (is_old && piece->old_size < piece->size ? piece->old_size : piece->size) - done;
            size = left < sizeof zeros ? left : sizeof zeros;
            struct iovec part = {is_old ? piece->old + done : (void *)zeros, size};
            record_parts(path, &part, piece->at + done, REAL(pwrite)(fd, part.iov_base, size, piece->at + done));
        }
    }
    if (fd >= 0)
        close(fd);
}

static int synced(int fd, int (*call)(int))
{
    char path[PATH_MAX];
    struct order order;
    if (!path_of(fd, path))
        return call(fd);
    stall("d", path);
    pthread_mutex_lock(&lock);
    struct unsynced *entry = unsynced_of(fd);
    char kind = fault("se", path, &order);
    int result = kind ? -1 : log_fd < 0 ? call(fd) : 0, error = kind ? order.error : errno;
    record(result == 0 ? SYNC : FAILED_SYNC, path, 0, NULL, 0);
    if (kind == 'e')
        evict(path, entry);
    forget(entry);
    return finish(result, error);
}

int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

#define NAMED(dir, path, kind, call)                                                                                   \
    char full[PATH_MAX];                                                                                               \
    if (!full_path(dir, path, full))                                                                                   \
        return call;                                                                                                   \
    pthread_mutex_lock(&lock);                                                                                         \
    int result = call, error = errno;                                                                                  \
    if (result == 0)                                                                                                   \
        record(kind, full, 0, NULL, 0);                                                                                \
    return finish(result, error);

int unlink(const char *path) { NAMED(AT_FDCWD, path, UNLINK, REAL(unlink)(path)) }
int rmdir(const char *path) { NAMED(AT_FDCWD, path, RMDIR, REAL(rmdir)(path)) }
int mkdir(const char *path, mode_t mode) { NAMED(AT_FDCWD, path, MKDIR, REAL(mkdir)(path, mode)) }
int unlinkat(int dir, const char *path, int flags)
{
    NAMED(dir, path, flags & AT_REMOVEDIR ? RMDIR : UNLINK, REAL(unlinkat)(dir, path, flags))
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    char full_from[PATH_MAX], full_to[PATH_MAX];
    struct order order;
    if (!full_path(from_dir, from, full_from) || !full_path(to_dir, to, full_to))
        return REAL(renameat)(from_dir, from, to_dir, to);
    pthread_mutex_lock(&lock);
    if (fault("c", full_to, &order))
        return finish(-1, order.error);
    int result = REAL(renameat)(from_dir, from, to_dir, to), error = errno;
    if (result == 0)
        record(RENAME, full_from, 0, full_to, strlen(full_to));
    return finish(result, error);
}

int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

#define FREE(answer, call)                                                                                             \
    struct order order;                                                                                                \
    int result = call;                                                                                                 \
    if (result == 0 && ordered("", "", &order))                                                                            \
        answer->f_bavail = order.free / answer->f_frsize;                                                              \
    return result;

int statvfs(const char *path, struct statvfs *answer) { FREE(answer, REAL(statvfs)(path, answer)) }
int statvfs64(const char *path, struct statvfs64 *answer) { FREE(answer, REAL(statvfs64)(path, answer)) }
