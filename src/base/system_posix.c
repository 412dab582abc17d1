/* system_posix.c -- see system.h: by what POSIX.1-2008 has, and a little more where it is there. */
#include "base/system.h"

#include "base/scratch.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Before each block, so that what follows is as malloc() would align it. */
#define HEAD_BYTES ((size_t)16)
/* What pieces of files are multiples of, too; see scratch.c. */
#define PAGE_BYTES ((size_t)4096)
#define LOOK_EVERY_NS 2000000

static void *begun(char *p, size_t size)
{
    if (!p)
        return NULL;
    memcpy(p, &size, sizeof(size));
    return p + HEAD_BYTES;
}

static char *head_of(void *p)
{
    return p ? (char *)p - HEAD_BYTES : NULL;
}

void *block_alloc(size_t size)
{
    return size > SIZE_MAX - HEAD_BYTES ? NULL : begun(malloc(size + HEAD_BYTES), size);
}

void *block_calloc(size_t size)
{
    return size > SIZE_MAX - HEAD_BYTES ? NULL : begun(calloc(size + HEAD_BYTES, 1), size);
}

void *block_realloc(void *p, size_t size)
{
    return size > SIZE_MAX - HEAD_BYTES ? NULL
                                        : begun(realloc(head_of(p), size + HEAD_BYTES), size);
}

size_t block_size(void *p)
{
    size_t size = 0;

    if (p)
        memcpy(&size, head_of(p), sizeof(size));
    return size;
}

void block_free(void *p)
{
    free(head_of(p));
}

size_t pages_bytes(size_t size)
{
    return (MAX(size, (size_t)1) + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

void *pages_map(size_t size)
{
    size_t bytes = pages_bytes(size);
    void *p;

    if (posix_memalign(&p, PAGE_BYTES, bytes))
        return NULL;
    memset(p, 0, bytes);
    return p;
}

void *pages_resize(void *p, size_t old_size, size_t new_size)
{
    size_t had = pages_bytes(old_size), wanted = pages_bytes(new_size);
    void *q;

    if (had == wanted)
        return p;
    q = pages_map(new_size);
    if (q) {
        memcpy(q, p, MIN(had, wanted));
        free(p);
    }
    return q;
}

void pages_unmap(void *p, size_t size)
{
    (void)size;
    free(p);
}

int system_temporary(const char *folder)
{
    char path[4096];
    int fd;

    if ((size_t)snprintf(path, sizeof(path), "%s/opmeter-XXXXXX", folder) >= sizeof(path))
        return -1;
    fd = mkstemp(path);
    if (fd < 0)
        return -1;
    unlink(path);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

int system_memory_file(const char *name)
{
    const char *folder = scratch_folder();

    (void)name;
    return folder ? system_temporary(folder) : -1;
}

bool system_reserve(int fd, off_t at, size_t bytes)
{
    static const char zeros[65536];

    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(fd, zeros, MIN(bytes - done, sizeof(zeros)), at + (off_t)done);

        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

void system_give_back(int fd, off_t at, size_t bytes)
{
    (void)fd; /* the room comes back with the end of the file */
    (void)at;
    (void)bytes;
}

bool system_random(void *out, size_t bytes)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, bytes);

    if (fd >= 0)
        close(fd);
    return n == (ssize_t)bytes;
}

size_t system_processors(void)
{
#ifdef _SC_NPROCESSORS_ONLN
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n > 0 ? (size_t)n : 1;
#else
    return 1;
#endif
}

int64_t system_memory(void)
{
#ifdef _SC_PHYS_PAGES
    int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 ? pages * page : 0;
#else
    return 0;
#endif
}

double system_load(void)
{
    return -1;
}

bool system_pipe(int ends[2])
{
    if (pipe(ends) < 0)
        return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return true;
}

int system_socket(int family)
{
    int fd = socket(family, SOCK_STREAM, 0);

    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    return fd;
}

void system_wait_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
#ifndef __APPLE__
    pthread_condattr_setclock(&attr, SYSTEM_WAIT_CLOCK);
#endif
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

/* macOS has no pthread_mutex_timedlock(). */
bool system_lock_within(pthread_mutex_t *mutex, long ns)
{
    const struct timespec pause = { .tv_nsec = LOOK_EVERY_NS };

    for (long waited = 0; pthread_mutex_trylock(mutex); waited += LOOK_EVERY_NS) {
        if (waited >= ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

void system_step_back(int nice)
{
    (void)nice; /* it would be the whole process */
}

bool system_zeros_at(void *place, size_t bytes)
{
#ifdef MAP_ANONYMOUS
    return mmap(place, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
#else
    (void)place;
    (void)bytes;
    return false;
#endif
}
