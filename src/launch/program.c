/* program.c -- see program.h. */
#include "launch/program.h"

#include "base/environment.h"
#include "base/rd.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX_READ 256
#define DYNAMIC_MAX 4096 /* entries that are looked at */

/* ---- the file ---- */

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The first of PATH. 0, ENOENT, or EACCES: there is one that is no program. */
static int find_program(const char *command, char out[PATH_MAX])
{
    const char *path = environment_get("PATH");
    int rc = ENOENT;

    if (strchr(command, '/')) {
        snprintf(out, PATH_MAX, "%s", command);
        if (is_program(out))
            return 0;
        return access(out, F_OK) == 0 ? EACCES : ENOENT;
    }
    for (path = path ? path : "/usr/bin:/bin"; *path;
         path += strcspn(path, ":"), path += *path == ':') {
        int n = (int)strcspn(path, ":");

        if (snprintf(out, PATH_MAX, "%.*s/%s", n ? n : 1, n ? path : ".", command) >= PATH_MAX)
            continue;
        if (is_program(out))
            return 0;
        if (access(out, F_OK) == 0)
            rc = EACCES;
    }
    return rc;
}

int program_missing(const char *command)
{
    char path[PATH_MAX];

    return find_program(command, path);
}

int program_not_started(int missing, int status)
{
    enum { SPAWN_FAILED = 127 };

    return WIFEXITED(status) && WEXITSTATUS(status) == SPAWN_FAILED ? missing : 0;
}

/* ---- what it is linked with ---- */

static bool is_llama(const char *name, size_t len)
{
    static const char *const starts[] = { "libllama", "libggml", "libwhisper", "libmtmd" };

    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
        if (len >= strlen(starts[i]) && memcmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

struct image {
    const uint8_t *data;
    size_t len;
    Elf64_Ehdr head;
};

static bool read_segment(const struct image *m, unsigned i, Elf64_Phdr *out)
{
    struct rd r = rd_of(m->data, m->len);
    const uint8_t *p;

    rd_bytes(&r, (size_t)MIN(m->head.e_phoff, (Elf64_Off)m->len));
    for (unsigned k = 0; k < i; k++)
        rd_bytes(&r, m->head.e_phentsize);
    p = rd_bytes(&r, sizeof(*out));
    if (p)
        memcpy(out, p, sizeof(*out));
    return p != NULL;
}

/* Where an address of the program lies in the file; NULL: nowhere. */
static const uint8_t *at_address(const struct image *m, uint64_t address, size_t *left)
{
    Elf64_Phdr s;

    for (unsigned i = 0; i < m->head.e_phnum && read_segment(m, i, &s); i++)
        if (s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz &&
            s.p_offset <= m->len && address - s.p_vaddr < m->len - s.p_offset) {
            *left = m->len - (size_t)s.p_offset - (size_t)(address - s.p_vaddr);
            return m->data + s.p_offset + (address - s.p_vaddr);
        }
    return NULL;
}

/* Entry by entry of the dynamic section, which begins at `offset`; true as long as there is one. */
static bool read_dynamic(const struct image *m, uint64_t offset, unsigned i, Elf64_Dyn *out)
{
    struct rd r = rd_of(m->data, m->len);
    const uint8_t *p;

    if (offset > m->len || i >= DYNAMIC_MAX)
        return false;
    rd_bytes(&r, (size_t)offset);
    rd_bytes(&r, i * sizeof(*out));
    p = rd_bytes(&r, sizeof(*out));
    if (p)
        memcpy(out, p, sizeof(*out));
    return p && out->d_tag != DT_NULL;
}

static bool needs_llama(const struct image *m, uint64_t offset)
{
    const uint8_t *names = NULL;
    size_t left = 0;
    Elf64_Dyn d;

    for (unsigned i = 0; !names && read_dynamic(m, offset, i, &d); i++)
        if (d.d_tag == DT_STRTAB)
            names = at_address(m, d.d_un.d_ptr, &left);
    for (unsigned i = 0; names && read_dynamic(m, offset, i, &d); i++)
        if (d.d_tag == DT_NEEDED && d.d_un.d_val < left &&
            is_llama((const char *)names + d.d_un.d_val, left - (size_t)d.d_un.d_val))
            return true;
    return false;
}

static bool image_needs_llama(struct image *m)
{
    Elf64_Phdr s;

    if (m->len < sizeof(m->head) || memcmp(m->data, ELFMAG, SELFMAG) != 0 ||
        m->data[EI_CLASS] != ELFCLASS64 || m->data[EI_DATA] != ELFDATA2LSB)
        return false;
    memcpy(&m->head, m->data, sizeof(m->head));
    for (unsigned i = 0; i < m->head.e_phnum && read_segment(m, i, &s); i++)
        if (s.p_type == PT_DYNAMIC)
            return needs_llama(m, s.p_offset);
    return false;
}

/* ---- what it is called ---- */

static bool is_node(const char *word, size_t len)
{
    static const char *const names[] = { "node", "nodejs", "electron" };

    for (size_t i = len; i-- > 0;)
        if (word[i] == '/') {
            word += i + 1;
            len -= i + 1;
            break;
        }
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (len == strlen(names[i]) && memcmp(word, names[i], len) == 0)
            return true;
    return false;
}

/* "#!/usr/bin/env -S node": any of its words. */
static bool script_of_node(const struct image *m)
{
    size_t n = MIN(m->len, (size_t)LINE_MAX_READ), at = 2;
    const char *line = (const char *)m->data;

    if (n < 2 || memcmp(line, "#!", 2) != 0)
        return false;
    while (at < n && line[at] != '\n') {
        size_t from = at;

        while (at < n && line[at] != ' ' && line[at] != '\n')
            at++;
        if (is_node(line + from, at - from))
            return true;
        at += at < n && line[at] == ' ';
    }
    return false;
}

bool program_uses_llama(const char *command)
{
    struct image m = { 0 };
    char path[PATH_MAX];
    struct stat st;
    void *p = MAP_FAILED;
    bool uses;
    int fd;

    if (is_node(command, strlen(command)))
        return true;
    if (find_program(command, path) != 0)
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && st.st_size > 0)
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return false;
    m.data = p;
    m.len = (size_t)st.st_size;
    uses = image_needs_llama(&m) || script_of_node(&m);
    munmap(p, m.len);
    return uses;
}
