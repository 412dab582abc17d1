/* npz.c -- read .npz archives; see npy.h.
 *
 * A zip archive is read from its end: the end record says where the central directory is, whose
 * entries say where each member is. NumPy stores members or deflates them; that is all we know. */
#include "run/npy.h"

#include "base/budget.h"
#include "base/error.h"
#include "base/human.h"
#include "base/inflate.h"
#include "base/rd.h"

#include <string.h>

#define SIG_LOCAL 0x04034b50u
#define SIG_CENTRAL 0x02014b50u
#define SIG_END 0x06054b50u
#define SIG_END64 0x06064b50u
#define SIG_LOCATOR64 0x07064b50u
#define END_LEN 22
#define COMMENT_MAX 65535

struct zip {
    const uint8_t *p;
    size_t len;
    const char *name; /* for messages */
    uint64_t at;      /* of the central directory */
    uint64_t n;       /* members */
};

struct member {
    const char *name;
    size_t name_len;
    unsigned method;
    uint32_t crc;
    uint64_t packed, size, local;
};

/* A reader at an offset; bad from the start if that is outside. */
static struct rd zip_at(const struct zip *z, uint64_t offset)
{
    struct rd r = rd_of(z->p, z->len);

    if (offset > z->len)
        r.bad = true;
    else
        rd_bytes(&r, (size_t)offset);
    return r;
}

/* Numbers that do not fit the end record stand in a larger one in front of it. */
static void read_end64(struct zip *z, size_t end)
{
    struct rd r;
    uint64_t at;

    if (end < 20)
        return;
    r = zip_at(z, end - 20);
    if (rd_u32(&r) != SIG_LOCATOR64)
        return;
    rd_u32(&r);
    at = rd_u64(&r);
    r = zip_at(z, at);
    if (rd_u32(&r) != SIG_END64 || !rd_bytes(&r, 28))
        return;
    z->n = rd_u64(&r);
    rd_u64(&r); /* bytes of the directory */
    z->at = rd_u64(&r);
}

static bool find_end(struct zip *z)
{
    size_t last = z->len >= END_LEN ? z->len - END_LEN : 0;
    size_t first = last > COMMENT_MAX ? last - COMMENT_MAX : 0;

    if (z->len < END_LEN)
        return false;
    for (size_t at = last;; at--) {
        struct rd r = zip_at(z, at);

        if (rd_u32(&r) == SIG_END) {
            rd_bytes(&r, 6); /* disks, and members on this one */
            z->n = rd_u16(&r);
            rd_u32(&r);
            z->at = rd_u32(&r);
            read_end64(z, at);
            return true;
        }
        if (at == first)
            return false;
    }
}

/* 64-bit numbers of a member, where the ordinary fields say that they are elsewhere. */
static void read_extra64(struct member *m, const uint8_t *p, size_t len)
{
    struct rd r = rd_of(p, len);

    while (rd_left(&r) >= 4) {
        unsigned id = rd_u16(&r);
        size_t n = rd_u16(&r);
        const uint8_t *body = rd_bytes(&r, n);

        if (!body)
            return;
        if (id == 1) {
            struct rd b = rd_of(body, n);

            if (m->size == UINT32_MAX)
                m->size = rd_u64(&b);
            if (m->packed == UINT32_MAX)
                m->packed = rd_u64(&b);
            if (m->local == UINT32_MAX)
                m->local = rd_u64(&b);
            return;
        }
    }
}

static bool read_entry(struct rd *r, struct member *m)
{
    size_t name_len, extra_len, comment_len;
    const uint8_t *name, *extra;

    if (rd_u32(r) != SIG_CENTRAL || !rd_bytes(r, 6))
        return false;
    m->method = rd_u16(r);
    rd_u32(r); /* date and time */
    m->crc = rd_u32(r);
    m->packed = rd_u32(r);
    m->size = rd_u32(r);
    name_len = rd_u16(r);
    extra_len = rd_u16(r);
    comment_len = rd_u16(r);
    rd_bytes(r, 8); /* disk, attributes */
    m->local = rd_u32(r);
    name = rd_bytes(r, name_len);
    extra = rd_bytes(r, extra_len);
    rd_bytes(r, comment_len);
    if (r->bad)
        return false;
    m->name = (const char *)name;
    m->name_len = name_len;
    read_extra64(m, extra, extra_len);
    return true;
}

static const uint8_t *member_bytes(const struct zip *z, const struct member *m)
{
    struct rd r = zip_at(z, m->local);
    size_t skip;

    if (rd_u32(&r) != SIG_LOCAL || !rd_bytes(&r, 22))
        return NULL;
    skip = rd_u16(&r);
    skip += rd_u16(&r);
    rd_bytes(&r, skip);
    return m->packed > rd_left(&r) ? NULL : rd_bytes(&r, (size_t)m->packed);
}

static int read_member(struct npz *out, const struct zip *z, const struct member *m,
                       struct budget *budget, opm_error *err)
{
    size_t tail = m->name_len > 4 && memcmp(m->name + m->name_len - 4, ".npy", 4) == 0 ? 4 : 0;
    const char *name = arena_strndup(&out->arena, m->name, m->name_len - tail);
    const uint8_t *bytes = member_bytes(z, m);
    char limit[HUMAN_ROOM];
    uint8_t *unpacked;

    if (!name)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", z->name);
    if (!bytes)
        return opm__fail(err, OPM_ETRUNC, "%s: member '%s' lies outside of the file", z->name,
                         name);
    if (m->method != 0 && m->method != 8)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%s: member '%s' is packed with method %u; only stored and deflated ones "
                         "are read",
                         z->name, name, m->method);
    if (m->method == 0 ? m->size != m->packed : m->size > (m->packed + 1) * INFLATE_RATIO_MAX)
        return opm__fail(err, OPM_EFORMAT, "%s: the sizes of member '%s' contradict each other",
                         z->name, name);
    if (m->method == 8) {
        if (!budget_has_memory(budget, (size_t)m->size))
            return opm__fail(err, OPM_ELIMIT,
                             "%s: unpacks to more than %s, the limit; OPMETER_MAX_MEMORY raises it",
                             z->name, human_bytes(limit, budget->limits.memory));
        budget_allocated(budget, (int64_t)m->size);
        unpacked = arena_alloc(&out->arena, (size_t)m->size + 1);
        if (!unpacked)
            return opm__fail(err, OPM_ENOMEM, "%s: out of memory for '%s'", z->name, name);
        if (!inflate_raw(bytes, (size_t)m->packed, unpacked, (size_t)m->size))
            return opm__fail(err, OPM_EFORMAT, "%s: member '%s' is corrupt", z->name, name);
        bytes = unpacked;
    }
    if (inflate_crc32(bytes, (size_t)m->size) != m->crc)
        return opm__fail(err, OPM_EFORMAT, "%s: member '%s' has a wrong checksum", z->name, name);
    return npy_parse(&out->array[out->n++], bytes, (size_t)m->size, name, &out->arena, err);
}

int npz_parse(struct npz *out, const void *p, size_t len, const char *name, opm_error *err)
{
    struct zip z = { .p = p, .len = len, .name = name };
    struct budget budget; /* of the members of this archive alone */
    struct rd r;
    int rc = budget_init(&budget, &(struct budget_limits){ 0 }, err);

    *out = (struct npz){ 0 };
    if (rc)
        return rc;
    if (!find_end(&z))
        return opm__fail(err, OPM_EFORMAT, "%s: not an .npz file (a zip archive of arrays)", name);
    if (z.n > NPZ_MEMBERS_MAX)
        return opm__fail(err, OPM_ELIMIT, "%s: more than %d members", name, NPZ_MEMBERS_MAX);
    r = zip_at(&z, z.at);
    if (z.n > rd_left(&r) / 46) /* bytes of the shortest entry */
        return opm__fail(err, OPM_ETRUNC, "%s: the archive's directory is cut short", name);
    out->array = arena_alloc(&out->arena, ((size_t)z.n + 1) * sizeof(*out->array));
    if (!out->array)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", name);
    for (uint64_t i = 0; !rc && i < z.n; i++) {
        struct member m;

        if (!read_entry(&r, &m))
            rc = opm__fail(err, OPM_ETRUNC, "%s: the archive's directory is damaged", name);
        else
            rc = read_member(out, &z, &m, &budget, err);
    }
    if (rc)
        npz_close(out);
    return rc;
}

int npz_open(struct npz *z, const char *path, opm_error *err)
{
    struct io_map map;
    int rc = io_map(&map, path, 0, err);

    if (rc)
        return rc;
    rc = npz_parse(z, map.data, map.len, path, err);
    if (rc)
        io_map_release(&map);
    else
        z->file = map;
    return rc;
}

const struct tensor *npz_find(const struct npz *z, const char *name)
{
    for (size_t i = 0; i < z->n; i++)
        if (strcmp(z->array[i].name, name) == 0)
            return &z->array[i];
    return NULL;
}

void npz_close(struct npz *z)
{
    arena_release(&z->arena);
    io_map_release(&z->file);
    *z = (struct npz){ 0 };
}
