/* Records what a process does to the files below a folder, and makes calls fail.

   LD_PRELOAD it with CRASH_ROOT (the folder). CRASH_TRACE names the file of the record.
   Each record is a byte for the call, a size of path and data (4 bytes each), an offset
   (8 bytes), the path and the data. */
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPENING = 1, WRITING = 2, SYNCING = 4, CUTTING = 8, REMOVING = 16 };

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_size;
static int trace = -1;

static int armed_calls, armed_errno, armed_short;
static long armed_from, armed_times, counted, failed;

#define REAL(result, name, ...)                                                        \
    static result (*real_##name)(__VA_ARGS__);                                         \
    if (!real_##name) real_##name = dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("CRASH_ROOT"), *file = getenv("CRASH_TRACE");
    if (folder && realpath(folder, root)) root_size = strlen(root);
    if (file && root_size)
        trace = (int)syscall(SYS_openat, AT_FDCWD, file,
                             O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Fail the matching calls from the number-th on, so many times (-1: for ever).
   A short write stores half of its bytes first. */
void crash_arm(int calls, long number, long times, int error, int is_short) {
    pthread_mutex_lock(&one_at_a_time);
    armed_calls = calls, armed_from = number, armed_times = times;
    armed_errno = error, armed_short = is_short, counted = failed = 0;
    pthread_mutex_unlock(&one_at_a_time);
}

long crash_counted(void) { return counted; }
long crash_failed(void) { return failed; }

/* 0 for a path that is not below the root, 1 for one whose calls may fail, 2 for one
   that is also recorded: locks, sockets and the index of the write-ahead log mean nothing
   after a crash. */
static int is_watched(const char *path) {
    if (!root_size || strncmp(path, root, root_size)) return 0;
    if (path[root_size] != '/' && path[root_size] != 0) return 0;
    size_t size = strlen(path);
    const char *ends[] = {"-shm", ".lock", ".sock", " (deleted)", 0};
    for (const char **end = ends; *end; end++)
        if (size > strlen(*end) && !strcmp(path + size - strlen(*end), *end)) return 1;
    return 2;
}

static void record(char call, const char *path, int64_t offset, const void *data,
                   size_t size) {
    if (trace < 0 || is_watched(path) == 1) return;
    struct __attribute__((packed)) { char call; uint32_t path, data; int64_t at; } head =
        {call, (uint32_t)strlen(path), (uint32_t)size, offset};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)path, head.path},
                            {(void *)data, size}};
    int kept = errno;
    if (syscall(SYS_writev, trace, parts, 3) != (long)(sizeof head + head.path + size))
        abort();
    errno = kept;
}

void crash_mark(const char *text) {
    pthread_mutex_lock(&one_at_a_time);
    record('A', text, 0, "", 0);
    pthread_mutex_unlock(&one_at_a_time);
}

static int path_of(int file, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    int kept = errno;
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    errno = kept;
    if (size < 0) return 0;
    path[size] = 0;
    return is_watched(path);
}

static int path_at(int folder, const char *name, char *path) {
    char base[PATH_MAX];
    int kept = errno;
    if (name[0] == '/') base[0] = 0;
    else if (folder == AT_FDCWD) { if (!getcwd(base, sizeof base)) return 0; }
    else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t size = readlink(link, base, sizeof base - 1);
        if (size < 0) { errno = kept; return 0; }
        base[size] = 0;
    }
    errno = kept;
    snprintf(path, PATH_MAX, "%.2000s%s%.2000s", base, base[0] ? "/" : "", name);
    return is_watched(path);
}

/* Whether this call is one that has to fail; called with the lock held. */
static int fails(int call) {
    if (!(armed_calls & call)) return 0;
    counted++;
    if (counted < armed_from) return 0;
    if (armed_times >= 0 && counted >= armed_from + armed_times) return 0;
    failed++;
    errno = armed_errno;
    return 1;
}

static int opened(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    if (!path_at(folder, name, path))
        return (int)syscall(SYS_openat, folder, name, flags, mode);
    pthread_mutex_lock(&one_at_a_time);
    int file = -1;
    if (!fails(OPENING)) {
        struct stat about;
        int kept = errno;
        int existed = !stat(path, &about);
        errno = kept;
        file = (int)syscall(SYS_openat, folder, name, flags, mode);
        if (file >= 0 && !existed && (flags & O_CREAT)) record('C', path, 0, "", 0);
        if (file >= 0 && existed && (flags & O_TRUNC) && about.st_size)
            record('T', path, 0, "", 0);
    }
    pthread_mutex_unlock(&one_at_a_time);
    return file;
}

#define MODE(last)                                                                     \
    mode_t mode = 0;                                                                   \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                             \
        va_list more;                                                                  \
        va_start(more, last);                                                          \
        mode = va_arg(more, mode_t);                                                   \
        va_end(more);                                                                  \
    }

int open(const char *name, int flags, ...) {
    MODE(flags) return opened(AT_FDCWD, name, flags, mode);
}
int open64(const char *name, int flags, ...) {
    MODE(flags) return opened(AT_FDCWD, name, flags | O_LARGEFILE, mode);
}
int openat(int folder, const char *name, int flags, ...) {
    MODE(flags) return opened(folder, name, flags, mode);
}
int openat64(int folder, const char *name, int flags, ...) {
    MODE(flags) return opened(folder, name, flags | O_LARGEFILE, mode);
}

static ssize_t written(int file, const void *data, size_t size, off_t at, int moves) {
    char path[PATH_MAX];
    if (!path_of(file, path))
        return moves ? syscall(SYS_write, file, data, size)
                     : syscall(SYS_pwrite64, file, data, size, at);
    pthread_mutex_lock(&one_at_a_time);
    ssize_t done = -1;
    int failing = fails(WRITING);
    if (failing && armed_short && size > 1) failing = 0, size /= 2;
    if (!failing) {
        if (moves) {
            int appends = (int)syscall(SYS_fcntl, file, F_GETFL, 0) & O_APPEND;
            at = syscall(SYS_lseek, file, 0, appends ? SEEK_END : SEEK_CUR);
            done = syscall(SYS_write, file, data, size);
        } else done = syscall(SYS_pwrite64, file, data, size, at);
        if (done > 0) record('W', path, at, data, (size_t)done);
    }
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

ssize_t write(int file, const void *data, size_t size) {
    return written(file, data, size, 0, 1);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    return written(file, data, size, at, 0);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    return written(file, data, size, at, 0);
}

static int synced(int file, long number) {
    char path[PATH_MAX];
    if (!path_of(file, path)) return (int)syscall(number, file);
    pthread_mutex_lock(&one_at_a_time);
    int done = -1;
    if (!fails(SYNCING) && !(done = (int)syscall(number, file)))
        record('S', path, 0, "", 0);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

int fsync(int file) { return synced(file, SYS_fsync); }
int fdatasync(int file) { return synced(file, SYS_fdatasync); }

static int cut(int file, off_t size) {
    char path[PATH_MAX];
    if (!path_of(file, path)) return (int)syscall(SYS_ftruncate, file, size);
    pthread_mutex_lock(&one_at_a_time);
    int done = -1;
    if (!fails(CUTTING) && !(done = (int)syscall(SYS_ftruncate, file, size)))
        record('T', path, size, "", 0);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

int ftruncate(int file, off_t size) { return cut(file, size); }
int ftruncate64(int file, off64_t size) { return cut(file, size); }

static int removed(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    if (!path_at(folder, name, path))
        return (int)syscall(SYS_unlinkat, folder, name, flags);
    pthread_mutex_lock(&one_at_a_time);
    int done = -1;
    if (!fails(REMOVING) && !(done = (int)syscall(SYS_unlinkat, folder, name, flags)))
        record('U', path, 0, "", 0);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

int unlink(const char *name) { return removed(AT_FDCWD, name, 0); }
int unlinkat(int folder, const char *name, int flags) {
    return removed(folder, name, flags);
}
int rmdir(const char *name) { return removed(AT_FDCWD, name, AT_REMOVEDIR); }

static int moved(int from, const char *old, int to, const char *new) {
    char source[PATH_MAX], target[PATH_MAX];
    int is_known = path_at(from, old, source);
    if (!(path_at(to, new, target) | is_known))
        return (int)syscall(SYS_renameat, from, old, to, new);
    pthread_mutex_lock(&one_at_a_time);
    int done = -1;
    if (!fails(REMOVING) && !(done = (int)syscall(SYS_renameat, from, old, to, new)))
        record('R', source, 0, target, strlen(target));
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

int rename(const char *old, const char *new) {
    return moved(AT_FDCWD, old, AT_FDCWD, new);
}
int renameat(int from, const char *old, int to, const char *new) {
    return moved(from, old, to, new);
}

static int made(int folder, const char *name, mode_t mode) {
    char path[PATH_MAX];
    if (!path_at(folder, name, path))
        return (int)syscall(SYS_mkdirat, folder, name, mode);
    pthread_mutex_lock(&one_at_a_time);
    int done = -1;
    if (!fails(OPENING) && !(done = (int)syscall(SYS_mkdirat, folder, name, mode)))
        record('M', path, 0, "", 0);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

int mkdir(const char *name, mode_t mode) { return made(AT_FDCWD, name, mode); }
int mkdirat(int folder, const char *name, mode_t mode) {
    return made(folder, name, mode);
}

/* A shared mapping that may be written would get around the record: it is noted. */
void *mmap64(void *at, size_t size, int rights, int flags, int file, off64_t offset) {
    char path[PATH_MAX];
    if (file >= 0 && (flags & MAP_SHARED) && (rights & PROT_WRITE) && path_of(file, path)) {
        pthread_mutex_lock(&one_at_a_time);
        record('P', path, offset, "", 0);
        pthread_mutex_unlock(&one_at_a_time);
    }
    return (void *)syscall(SYS_mmap, at, size, rights, flags, file, offset);
}
void *mmap(void *at, size_t size, int rights, int flags, int file, off_t offset) {
    return mmap64(at, size, rights, flags, file, offset);
}
