/* system_linux.c -- see system.h. */
#include "base/system.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Huge pages are 2 MiB here; below two of them the alignment slack is not worth having. */
#define HUGE_BYTES ((size_t)2 << 20)
#define HUGE_FROM_BYTES ((size_t)4 << 20)

static_assert(PAGES_SLACK_BYTES >= 2 * HUGE_BYTES, "room for alignment and for rounding");

/* The kernel rounds the small ones. */
size_t pages_bytes(size_t size)
{
    if (size < HUGE_FROM_BYTES)
        return size ? size : 1;
    return (size + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
}

/* Map bytes (a multiple of HUGE_BYTES) from a huge page boundary on, so that no part is left to
 * small pages and moving it later moves whole huge pages. NULL on failure. */
static void *map_aligned(size_t bytes, int prot)
{
    size_t before;
    char *p = mmap(NULL, bytes + HUGE_BYTES, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    before = -(uintptr_t)p & (HUGE_BYTES - 1);
    if (before)
        munmap(p, before);
    munmap(p + before + bytes, HUGE_BYTES - before);
    return p + before;
}

void *pages_map(size_t size)
{
    void *p;

    if (size < HUGE_FROM_BYTES) {
        p = mmap(NULL, pages_bytes(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                 0);
        return p == MAP_FAILED ? NULL : p;
    }
    p = map_aligned(pages_bytes(size), PROT_READ | PROT_WRITE);
    if (p)
        madvise(p, pages_bytes(size), MADV_HUGEPAGE); /* a kernel without them may refuse */
    return p;
}

void *pages_resize(void *p, size_t old_size, size_t new_size)
{
    size_t old_bytes = pages_bytes(old_size), new_bytes = pages_bytes(new_size);
    void *q, *place;

    if (new_size < HUGE_FROM_BYTES) {
        q = mremap(p, old_bytes, new_bytes, MREMAP_MAYMOVE);
        return q == MAP_FAILED ? NULL : q;
    }
    q = (uintptr_t)p % HUGE_BYTES ? MAP_FAILED : mremap(p, old_bytes, new_bytes, 0);
    if (q == MAP_FAILED) {
        place = map_aligned(new_bytes, PROT_NONE);
        if (!place)
            return NULL;
        /* If this fails the kernel may have dropped `place` already and another thread may own the
         * addresses by now, so it is not unmapped: that would leak address space, no memory. */
        q = mremap(p, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        if (q == MAP_FAILED)
            return NULL;
    }
    madvise(q, new_bytes, MADV_HUGEPAGE);
    return q;
}

void pages_unmap(void *p, size_t size)
{
    munmap(p, pages_bytes(size));
}

int system_temporary(const char *folder)
{
    return open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

int system_memory_file(const char *name)
{
    return memfd_create(name, MFD_CLOEXEC);
}

bool system_reserve(int fd, off_t at, size_t bytes)
{
    return posix_fallocate(fd, at, (off_t)bytes) == 0;
}

void system_give_back(int fd, off_t at, size_t bytes)
{
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, (off_t)bytes);
}

bool system_random(void *out, size_t bytes)
{
    return getrandom(out, bytes, 0) == (ssize_t)bytes;
}

size_t system_processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) ? 1 : (size_t)CPU_COUNT(&set);
}

int64_t system_memory(void)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 ? pages * page : 0;
}

double system_load(void)
{
    double load;

    return getloadavg(&load, 1) == 1 ? load : -1;
}

bool system_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC) == 0;
}

int system_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

void system_wait_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, SYSTEM_WAIT_CLOCK);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

bool system_lock_within(pthread_mutex_t *mutex, long ns)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_mutex_timedlock(mutex, &until) == 0;
}

void system_step_back(int nice)
{
    setpriority(PRIO_PROCESS, (id_t)gettid(), nice);
}

bool system_zeros_at(void *place, size_t bytes)
{
    return mmap(place, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
}
