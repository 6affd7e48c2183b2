/* Lets calls of the C library fail, preloaded into the process that runs the scenarios.

faults_arm(kind, at, error, all) counts from now on the calls of one kind and lets number `at` fail, or all from it on.
Kind 1: everything that changes a regular file or a folder. Kind 2: requests for memory of at least 512 bytes, which are
those that Python and SQLite do not answer from what they hold. Kind 3: the requests for memory that follow call number
`at` of kind 1, until eight have failed. Kind 4: reading a regular file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, WRITES, MEMORY, MEMORY_AFTER_WRITE, READS };
enum { SMALL = 512, IN_A_ROW = 8 };

static int kind, failure, all;
static long at, writes, requests, reads, failed;

void faults_arm(int new_kind, long new_at, int error, int from_then_on) {
    writes = requests = reads = failed = 0;
    at = new_at;
    failure = error;
    all = from_then_on;
    __atomic_store_n(&kind, new_kind, __ATOMIC_SEQ_CST);
}

void faults_disarm(void) { __atomic_store_n(&kind, OFF, __ATOMIC_SEQ_CST); }

/* The number of calls since faults_arm, without those of the other kind. */
long faults_count(void) { return requests ? requests : reads ? reads : writes; }

static int fails(long number) {
    int now = number == at || (all && number > at);
    if (now) __atomic_add_fetch(&failed, 1, __ATOMIC_SEQ_CST);
    return now;
}

static int write_fails(void) {
    if (kind != WRITES && kind != MEMORY_AFTER_WRITE) return 0;
    long number = __atomic_add_fetch(&writes, 1, __ATOMIC_SEQ_CST);
    if (kind != WRITES || !fails(number)) return 0;
    errno = failure;
    return 1;
}

static int read_fails(void) {
    if (kind != READS || !fails(__atomic_add_fetch(&reads, 1, __ATOMIC_SEQ_CST))) return 0;
    errno = failure;
    return 1;
}

static int memory_fails(size_t size) {
    if ((kind != MEMORY && kind != MEMORY_AFTER_WRITE) || size < SMALL) return 0;
    if (kind == MEMORY) return fails(__atomic_add_fetch(&requests, 1, __ATOMIC_SEQ_CST));
    return writes >= at && __atomic_add_fetch(&failed, 1, __ATOMIC_SEQ_CST) <= IN_A_ROW;
}

static int is_regular(int file) {
    struct stat about;
    int before = errno, found = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    errno = before;
    return found;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CHANGES_FILE(type, name, parameters, arguments) \
    type name parameters { \
        static __typeof__(&name) next; \
        if (!next) next = NEXT(name); \
        return is_regular(file) && write_fails() ? -1 : next arguments; \
    }
#define READS_FILE(name, parameters, arguments) \
    ssize_t name parameters { \
        static __typeof__(&name) next; \
        if (!next) next = NEXT(name); \
        return is_regular(file) && read_fails() ? -1 : next arguments; \
    }
#define CHANGES_FOLDER(name, parameters, arguments) \
    int name parameters { \
        static __typeof__(&name) next; \
        if (!next) next = NEXT(name); \
        return write_fails() ? -1 : next arguments; \
    }
#define OPENS(name, parameters, arguments) \
    int name parameters { \
        static __typeof__(&name) next; \
        if (!next) next = NEXT(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return (flags & (O_CREAT | O_TRUNC)) && write_fails() ? -1 : next arguments; \
    }

CHANGES_FILE(ssize_t, write, (int file, const void *from, size_t size), (file, from, size))
CHANGES_FILE(ssize_t, pwrite, (int file, const void *from, size_t size, off_t to), (file, from, size, to))
CHANGES_FILE(ssize_t, pwrite64, (int file, const void *from, size_t size, off64_t to), (file, from, size, to))
CHANGES_FILE(ssize_t, writev, (int file, const struct iovec *from, int number), (file, from, number))
CHANGES_FILE(int, fsync, (int file), (file))
CHANGES_FILE(int, fdatasync, (int file), (file))
CHANGES_FILE(int, ftruncate, (int file, off_t size), (file, size))
CHANGES_FILE(int, ftruncate64, (int file, off64_t size), (file, size))
CHANGES_FILE(int, fchmod, (int file, mode_t mode), (file, mode))
READS_FILE(read, (int file, void *to, size_t size), (file, to, size))
READS_FILE(pread, (int file, void *to, size_t size, off_t from), (file, to, size, from))
READS_FILE(pread64, (int file, void *to, size_t size, off64_t from), (file, to, size, from))
CHANGES_FOLDER(rename, (const char *from, const char *to), (from, to))
CHANGES_FOLDER(mkdir, (const char *path, mode_t mode), (path, mode))
CHANGES_FOLDER(unlink, (const char *path), (path))
CHANGES_FOLDER(chmod, (const char *path, mode_t mode), (path, mode))
OPENS(open, (const char *path, int flags, ...), (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENS(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPENS(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

ssize_t sendfile64(int file, int from, off64_t *begin, size_t size);
CHANGES_FILE(ssize_t, sendfile64, (int file, int from, off64_t *begin, size_t size), (file, from, begin, size))

ssize_t sendfile(int file, int from, off_t *begin, size_t size);
CHANGES_FILE(ssize_t, sendfile, (int file, int from, off_t *begin, size_t size), (file, from, begin, size))

/* Those of the C library by their other names: dlsym itself asks for memory. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void *refuse(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size) { return memory_fails(size) ? refuse() : __libc_malloc(size); }

void *calloc(size_t number, size_t size) {
    return memory_fails(number * size) ? refuse() : __libc_calloc(number, size);
}

void *realloc(void *old, size_t size) { return memory_fails(size) ? refuse() : __libc_realloc(old, size); }

void *aligned_alloc(size_t alignment, size_t size) {
    return memory_fails(size) ? refuse() : __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (memory_fails(size)) return ENOMEM;
    *result = __libc_memalign(alignment, size);
    return *result ? 0 : ENOMEM;
}

/* Shared memory of a file, such as the index of SQLite's log, and that which Python divides into small pieces. */
#define MAPS(name, offset) \
    void *name(void *address, size_t size, int protection, int flags, int file, offset begin) { \
        static __typeof__(&name) next; \
        if (!next) next = NEXT(name); \
        int is_shared = file >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE); \
        if (is_shared ? write_fails() : file < 0 && memory_fails(size)) { \
            if (!is_shared) errno = ENOMEM; \
            return MAP_FAILED; \
        } \
        return next(address, size, protection, flags, file, begin); \
    }
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)
