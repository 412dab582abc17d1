/* tune.c -- see tune.h. */
#include "engine/native/thread/tune.h"

#include "base/alloc.h"
#include "base/capped.h"
#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX_BYTES (1 << 20) /* more is not read, and nothing is added */

struct entry {
    char key[TUNE_KEY_MAX];
    int64_t a_ns, b_ns;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entry;
static size_t nentry, entry_cap;
static bool loaded;
static char cpu[64]; /* of this machine, without blanks: begins each line */

static void find_cpu(void)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    struct capped to = capped_of(cpu, sizeof(cpu));

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "model name", 10) == 0 || strncmp(line, "model\t", 6) == 0) {
            for (const char *p = strchr(line, ':'); p && *p; p++)
                if (*p > ' ' && *p != ':')
                    capped_addc(&to, *p);
            capped_addc(&to, ',');
            if (strncmp(line, "model name", 10) == 0)
                break;
        }
    if (f)
        fclose(f);
    capped_str(&to);
}

/* False: nowhere. */
static bool find_path(char *out, size_t size, bool make)
{
    char *slash;

    if (!folder_cache_path(out, size, "tune") || out[0] != '/')
        return false;
    slash = strrchr(out, '/');
    for (char *p = out + 1; make && p <= slash; p++)
        if (*p == '/') {
            *p = '\0';
            if (mkdir(out, 0777) && errno != EEXIST)
                make = false; /* opening will fail then */
            *p = '/';
        }
    return true;
}

static bool remember(const char *key, int64_t a, int64_t b)
{
    struct entry e = { .a_ns = a, .b_ns = b };

    if (strlen(key) >= sizeof(e.key) || !GROW(entry, entry_cap, nentry + 1))
        return false;
    memcpy(e.key, key, strlen(key) + 1);
    entry[nentry++] = e;
    return true;
}

/* "CPU KEY A B"; other lines are other machines', or broken. */
static void read_line(char *line)
{
    char *save = NULL, *name = strtok_r(line, " \n", &save), *key = strtok_r(NULL, " \n", &save),
         *a = strtok_r(NULL, " \n", &save), *b = strtok_r(NULL, " \n", &save);
    long long x, y;

    if (!b || strcmp(name, cpu) != 0)
        return;
    x = strtoll(a, NULL, 10);
    y = strtoll(b, NULL, 10);
    if (x > 0 && y > 0)
        remember(key, x, y);
}

static void load(void)
{
    char path[PATH_MAX], line[512];
    struct stat st;
    FILE *f;

    if (loaded)
        return;
    loaded = true;
    find_cpu();
    f = find_path(path, sizeof(path), false) ? fopen(path, "re") : NULL;
    if (!f)
        return;
    if (fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX_BYTES)
        while (fgets(line, sizeof(line), f))
            read_line(line);
    fclose(f);
}

static void append(const char *key, int64_t a, int64_t b)
{
    char path[PATH_MAX], line[512];
    struct stat st;
    int fd, n;

    if (!cpu[0] || !find_path(path, sizeof(path), true))
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    n = snprintf(line, sizeof(line), "%s %s %lld %lld\n", cpu, key, (long long)a, (long long)b);
    if (n > 0 && (size_t)n < sizeof(line) && fstat(fd, &st) == 0 && st.st_size < FILE_MAX_BYTES &&
        write(fd, line, (size_t)n) != n)
        (void)!ftruncate(fd, st.st_size);
    close(fd);
}

bool tune_get(const char *key, int64_t *a_ns, int64_t *b_ns)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    load();
    for (size_t i = 0; i < nentry && !found; i++)
        if (strcmp(entry[i].key, key) == 0) {
            *a_ns = entry[i].a_ns;
            *b_ns = entry[i].b_ns;
            found = true;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

void tune_put(const char *key, int64_t a_ns, int64_t b_ns)
{
    pthread_mutex_lock(&lock);
    load();
    if (remember(key, a_ns, b_ns))
        append(key, a_ns, b_ns);
    pthread_mutex_unlock(&lock);
}
