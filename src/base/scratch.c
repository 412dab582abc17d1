/* scratch.c -- see scratch.h: one file for the whole process, a piece of it for each mapping. */
#include "base/scratch.h"

#include "base/environment.h"
#include "base/system.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES ((size_t)4096)

struct piece {
    char *p;
    size_t bytes;
    off_t at; /* in the file */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_size_t npiece; /* read without the lock: most processes have none */
static struct piece *piece;
static size_t piece_cap;
static int fd = -1;
static off_t end; /* of what was given out; what came back before it is a hole */

const char *scratch_folder(void)
{
    const char *const folders[] = { environment_get("TMPDIR"), "/var/tmp", "/tmp" };

    for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
        if (folders[i] && access(folders[i], W_OK | X_OK) == 0)
            return folders[i];
    return NULL;
}

static size_t rounded(size_t size)
{
    return (size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

/* The piece that begins at p, or NULL. What was made last is asked for first. */
static struct piece *find(const void *p)
{
    for (size_t i = atomic_load(&npiece); i--;)
        if (piece[i].p == p)
            return &piece[i];
    return NULL;
}

static bool open_file(const char *folder)
{
    if (fd < 0) {
        fd = system_temporary(folder);
        end = 0;
    }
    return fd >= 0;
}

static void close_if_unused(void)
{
    if (atomic_load(&npiece) || fd < 0)
        return;
    close(fd);
    fd = -1;
    free(piece);
    piece = NULL;
    piece_cap = 0;
}

static bool has_room(void)
{
    size_t n = atomic_load(&npiece), cap = piece_cap ? piece_cap * 2 : 64;
    struct piece *more = n < piece_cap ? piece : realloc(piece, cap * sizeof(*piece));

    if (more && n == piece_cap)
        piece_cap = cap;
    if (more)
        piece = more;
    return more != NULL;
}

/* The locked part of scratch_map(). */
static void *map_locked(const char *folder, size_t bytes)
{
    void *p = MAP_FAILED;

    /* Without the room on the disk, writing to it would be a signal. */
    if (has_room() && open_file(folder) && system_reserve(fd, end, bytes))
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, end);
    if (p == MAP_FAILED) {
        close_if_unused();
        return NULL;
    }
    piece[npiece] = (struct piece){ p, bytes, end };
    atomic_fetch_add(&npiece, 1);
    end += (off_t)bytes;
    return p;
}

void *scratch_map(const char *folder, size_t size)
{
    void *p;

    if (size > PTRDIFF_MAX - PAGE_BYTES)
        return NULL;
    pthread_mutex_lock(&lock);
    p = map_locked(folder, rounded(MAX(size, (size_t)1)));
    pthread_mutex_unlock(&lock);
    return p;
}

bool scratch_is(const void *p, size_t *size)
{
    const struct piece *found;

    if (LIKELY(atomic_load_explicit(&npiece, memory_order_relaxed) == 0) ||
        (uintptr_t)p % PAGE_BYTES)
        return false;
    pthread_mutex_lock(&lock);
    found = find(p);
    if (found)
        *size = found->bytes;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

void *scratch_resize(void *p, size_t size)
{
    size_t had;
    void *q;

    if (!scratch_is(p, &had))
        return NULL;
    if (rounded(size) <= had)
        return p;
    q = scratch_map(NULL, size); /* the file is open */
    if (q) {
        memcpy(q, p, had);
        scratch_unmap(p);
    }
    return q;
}

bool scratch_unmap(void *p)
{
    struct piece *found;
    size_t had;

    if (!scratch_is(p, &had))
        return false;
    pthread_mutex_lock(&lock);
    found = find(p);
    munmap(found->p, found->bytes);
    /* Where the file system has no holes, the room comes back with the end of the file. */
    system_give_back(fd, found->at, found->bytes);
    atomic_fetch_sub(&npiece, 1);
    *found = piece[npiece];
    close_if_unused();
    pthread_mutex_unlock(&lock);
    return true;
}
