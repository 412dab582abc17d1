/* capture.c -- see capture.h. */
#include "import/graph/capture.h"

#include "base/alloc.h"
#include "base/error.h"
#include "import/common/span_args.h"
#include "import/graph/op_copy.h"

#include <string.h>
#include <strings.h>

#define MODULE_MARK "nn.Module: "

int captures_init(struct captures *c, struct strpool *names)
{
    *c = (struct captures){ .names = names };
    return store_new(&c->ops);
}

void captures_release(struct captures *c)
{
    store_free(c->ops);
    mem_free(c->name);
    mem_free(c->launch);
    mem_free(c->capture);
    mem_free(c->path);
    u64map_release(&c->known);
    u64map_release(&c->by_node);
    arena_release(&c->arena);
    *c = (struct captures){ 0 };
}

uint64_t names_hash(const uint32_t *name, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ n;

    for (size_t i = 0; i < n; i++)
        h = (h ^ name[i]) * UINT64_C(0x9e3779b97f4a7c15) + (h >> 29);
    return h;
}

int captures_add_launch(struct captures *c, const char *name, struct captured launch)
{
    str_id id = 0;

    if (name && strpool_intern(c->names, name, strlen(name), &id))
        return OPM_ENOMEM;
    if (!GROW(c->name, c->name_cap, c->nlaunch + 1) ||
        !GROW(c->launch, c->launch_cap, c->nlaunch + 1))
        return OPM_ENOMEM;
    c->name[c->nlaunch] = id;
    c->launch[c->nlaunch++] = launch;
    return 0;
}

static int add_path(struct captures *c, const char *path, size_t *out)
{
    const char *copy;

    for (*out = 0; *out < c->npath; ++*out)
        if (strcmp(c->path[*out], path) == 0)
            return 0;
    copy = arena_strndup(&c->arena, path, strlen(path));
    if (!copy || !GROW(c->path, c->path_cap, c->npath + 1))
        return OPM_ENOMEM;
    c->path[c->npath++] = copy;
    return 0;
}

static int add_node(struct captures *c, size_t launch)
{
    int64_t node = c->launch[launch].node;
    uint64_t *at = node == OPM_NULL_I64 ? NULL : u64map_get(&c->by_node, (uint64_t)node);

    if (at)
        *at = SIZE_MAX;
    return at || node == OPM_NULL_I64 ? 0 : u64map_put(&c->by_node, (uint64_t)node, launch);
}

size_t captures_node(const struct captures *c, const struct capture *k, int64_t node)
{
    const uint64_t *at = node == OPM_NULL_I64 ? NULL : u64map_get(&c->by_node, (uint64_t)node);

    if (!at || *at != SIZE_MAX)
        return at ? (size_t)*at : SIZE_MAX;
    for (size_t i = k->first; i < k->first + k->n; i++)
        if (c->launch[i].node == node)
            return i;
    return SIZE_MAX;
}

bool captures_alike(const struct captures *c, size_t a, size_t b)
{
    const struct capture *x = &c->capture[a], *y = &c->capture[b];

    if (x->n != y->n ||
        memcmp(c->name + x->first, c->name + y->first, x->n * sizeof(*c->name)) != 0)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (c->launch[x->first + i].kind != c->launch[y->first + i].kind)
            return false;
    return true;
}

int captures_add(struct captures *c, const char *path, size_t first, int64_t size)
{
    size_t n = c->nlaunch - first, at;
    bool named = true;

    if (!n)
        return 0;
    if (add_path(c, path, &at) || !GROW(c->capture, c->capture_cap, c->ncapture + 1))
        return OPM_ENOMEM;
    for (size_t i = first; i < c->nlaunch; i++) {
        if (add_node(c, i))
            return OPM_ENOMEM;
        named &= c->name[i] != 0 || c->launch[i].kind != LAUNCH_KERNEL;
    }
    c->capture[c->ncapture++] =
        (struct capture){ .path = at, .first = first, .n = n, .size = size, .named = named };
    return 0;
}

enum role { ROLE_NONE, ROLE_BEGIN, ROLE_END, ROLE_KERNEL, ROLE_COPY, ROLE_FILL };

static enum role role_of(const char *name)
{
    if (strstr(name, "StreamBeginCapture"))
        return ROLE_BEGIN;
    if (strstr(name, "StreamEndCapture"))
        return ROLE_END;
    if (strstr(name, "Launch") && strstr(name, "Kernel"))
        return ROLE_KERNEL;
    if (strstr(name, "Memcpy"))
        return ROLE_COPY;
    return strstr(name, "Memset") ? ROLE_FILL : ROLE_NONE;
}

/* Looking through a trace for what it captures. */
struct search {
    struct captures *to;
    const struct store *st;
    const char *path;
    const struct site *sites;
    const uint32_t *site, *parent;
    uint8_t *role; /* enum role, per site */
    struct op_copier ops;
    struct buf text;
};

/* A thread captures into one graph at a time, and what is captured is launched by this thread. */
struct begun {
    uint32_t track;
    size_t row; /* of the span that begins it */
    struct captured *launch;
    str_id *name;
    size_t n, launch_cap, name_cap;
};

/* The module of a name like "nn.Module: Linear_12"; its text goes to s->text. */
static const char *module_of(struct search *s, const char *name)
{
    const char *from = name + strlen(MODULE_MARK), *low = strrchr(from, '_');

    buf_clear(&s->text);
    if (low && low != from && low[1] && low[1 + strspn(low + 1, "0123456789")] == '\0')
        buf_add(&s->text, from, (size_t)(low - from));
    else
        buf_adds(&s->text, from);
    return s->text.failed ? NULL : buf_str(&s->text);
}

/* The innermost operator and module around a launch. */
static int find_op(struct search *s, size_t row, uint32_t *out)
{
    size_t nop = store_nrow(s->st, TABLE_op);
    uint32_t op = s->sites[s->site[row]].op;
    const char *module = NULL;

    for (uint32_t at = (uint32_t)row; at != OPM_NULL_ID && (!module || op >= nop);
         at = s->parent ? s->parent[at] : OPM_NULL_ID) {
        const struct site *site = &s->sites[s->site[at]];
        const char *name = site->name ? store_text(s->st, site->name) : "";

        if (op >= nop)
            op = site->op;
        if (!module && strncmp(name, MODULE_MARK, strlen(MODULE_MARK)) == 0) {
            module = module_of(s, name);
            if (!module)
                return OPM_ENOMEM;
        }
    }
    *out = OPM_NULL_ID;
    return op < nop ? op_copy(&s->ops, op, module, out) : 0;
}

/* What an annotation around it says that the graph is for: "capture_32_DECODE". */
static int64_t size_of(const struct search *s, size_t row)
{
    for (uint32_t at = (uint32_t)row; at != OPM_NULL_ID;
         at = s->parent ? s->parent[at] : OPM_NULL_ID) {
        str_id id = s->sites[s->site[at]].name;
        const char *name = id ? store_text(s->st, id) : "", *digits;
        int64_t size = 0;

        if (strncasecmp(name, "capture", 7) != 0)
            continue;
        digits = name + strcspn(name, "0123456789");
        for (; *digits >= '0' && *digits <= '9' && size < INT64_MAX / 100; digits++)
            size = size * 10 + *digits - '0';
        return size ? size : -1;
    }
    return -1;
}

/* A launch within another is how that one does it. */
static bool is_inner(const struct search *s, size_t row)
{
    uint32_t up = s->parent ? s->parent[row] : OPM_NULL_ID;

    return up != OPM_NULL_ID && s->role[s->site[up]] >= ROLE_KERNEL;
}

static int take_launch(struct search *s, struct begun *b, size_t row, enum role role)
{
    struct captured launch = { .node = OPM_NULL_I64,
                               .kind = (uint8_t)(role - ROLE_KERNEL + LAUNCH_KERNEL) };
    struct buf name = { 0 };
    str_id id = 0;
    int rc = 0;

    if (is_inner(s, row))
        return 0;
    if (span_arg_text(s->st, row, "kernel", &name) && name.len)
        rc = strpool_intern(s->to->names, buf_str(&name), name.len, &id);
    buf_release(&name);
    span_arg_int(s->st, row, "graph node id", &launch.node);
    if (rc == 0)
        rc = find_op(s, row, &launch.op);
    if (rc || !GROW(b->launch, b->launch_cap, b->n + 1) || !GROW(b->name, b->name_cap, b->n + 1))
        return OPM_ENOMEM;
    b->name[b->n] = id;
    b->launch[b->n++] = launch;
    return 0;
}

static int end_capture(struct search *s, struct begun *b)
{
    struct captures *c = s->to;
    size_t first = c->nlaunch;

    if (!GROW(c->name, c->name_cap, first + b->n) || !GROW(c->launch, c->launch_cap, first + b->n))
        return OPM_ENOMEM;
    for (size_t i = 0; i < b->n; i++) {
        c->name[first + i] = b->name[i];
        c->launch[first + i] = b->launch[i];
    }
    c->nlaunch += b->n;
    return captures_add(c, s->path, first, size_of(s, b->row));
}

static int walk(struct search *s)
{
    struct span_tracks tracks = store_span_tracks(s->st);
    size_t nspan = store_nrow(s->st, TABLE_span), n = 0, cap = 0;
    struct begun *begun = NULL;
    int rc = 0;

    for (size_t row = 0; row < nspan && rc == 0; row++) {
        enum role role = (enum role)s->role[s->site[row]];
        uint32_t track;
        size_t i = 0;

        if (role == ROLE_NONE)
            continue;
        track = span_tracks_get(&tracks, row);
        while (i < n && begun[i].track != track)
            i++;
        if (role == ROLE_BEGIN && i == n) {
            if (!GROW(begun, cap, n + 1)) {
                rc = OPM_ENOMEM;
                break;
            }
            begun[n++] = (struct begun){ .track = track, .row = OPM_NULL_ID };
        }
        if (role == ROLE_BEGIN) { /* one that never ended is forgotten */
            begun[i].row = row;
            begun[i].n = 0;
        } else if (i == n || begun[i].row == OPM_NULL_ID) {
            continue;
        } else if (role == ROLE_END) {
            rc = end_capture(s, &begun[i]);
            begun[i].row = OPM_NULL_ID;
        } else {
            rc = take_launch(s, &begun[i], row, role);
        }
    }
    for (size_t i = 0; i < n; i++) {
        mem_free(begun[i].launch);
        mem_free(begun[i].name);
    }
    mem_free(begun);
    return rc;
}

int captures_take(struct captures *c, const struct store *st, const char *path)
{
    str_id hardware = strpool_find(store_strings(st), "hardware", 8);
    struct search s = { .to = c,
                        .st = st,
                        .path = path,
                        .site = store_span_site(st),
                        .ops = { .to = c->ops, .from = st, .known = &c->known } };
    const void *parent = NULL;
    size_t nsite;
    bool any = false;
    int rc = 0;

    s.sites = store_sites(st, &nsite);
    s.role = mem_calloc(nsite + 1, 1);
    if (!s.role)
        return OPM_ENOMEM;
    for (size_t i = 0; i < nsite; i++) {
        if (s.sites[i].layer == hardware || !s.sites[i].name)
            continue;
        s.role[i] = (uint8_t)role_of(store_text(st, s.sites[i].name));
        any |= s.role[i] == ROLE_BEGIN;
    }
    if (any)
        rc = store_column(st, TABLE_span, span_col_parent, &parent);
    s.parent = parent;
    if (any && rc == 0)
        rc = walk(&s);
    op_copier_release(&s.ops);
    buf_release(&s.text);
    mem_free(s.role);
    return rc;
}

int captures_read(struct captures *c, const char *path, const struct import_options *opts,
                  opm_error *err)
{
    struct store *st = NULL;
    size_t before = c->ncapture;
    int rc = store_new(&st);

    if (rc == 0)
        rc = import_all(st, &path, 1, opts, err);
    else
        opm__fail(err, rc, "%s: out of memory", path);
    if (rc == 0 && (store_finish(st) || captures_take(c, st, path)))
        rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", path);
    store_free(st);
    if (rc == 0 && c->ncapture == before)
        rc = opm__fail(err, OPM_EFORMAT,
                       "%s: no graph is captured in it: there is no launch between a "
                       "StreamBeginCapture and its StreamEndCapture; record the capture, too",
                       path);
    return rc;
}
