/* nodes.c -- see nodes.h. */
#include "import/graph/nodes.h"

#include "base/alloc.h"
#include "base/error.h"
#include "import/common/span_args.h"

#include <string.h>

#define CATEGORY "cuda_graph"
#define CLONES_MAX 64 /* of clones; a longer chain is a circle */

enum role { ROLE_NONE, ROLE_MADE, ROLE_CLONED };

/* Processes number their nodes alike. */
static uint64_t key_of(const struct store *st, uint32_t track, int64_t node)
{
    int64_t source = store_i64_or(st, TABLE_track, track, track_col_source, 0);

    return (uint64_t)node ^ ((uint64_t)source + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static enum role role_of(const struct store *st, const struct site *site)
{
    const char *name = site->name ? store_text(st, site->name) : "";

    if (!site->cat || strcmp(store_text(st, site->cat), CATEGORY) != 0)
        return ROLE_NONE;
    if (strcmp(name, "graph node") == 0)
        return ROLE_MADE;
    return strcmp(name, "graph node clone") == 0 ? ROLE_CLONED : ROLE_NONE;
}

static int take(struct graph_nodes *n, uint32_t track, size_t row, enum role role)
{
    int64_t node, original;

    if (!span_arg_int(n->st, row, "graph node id", &node))
        return 0;
    if (role == ROLE_MADE)
        return u64map_put(&n->made, key_of(n->st, track, node), row);
    if (!span_arg_int(n->st, row, "cloned from", &original))
        return 0;
    return u64map_put(&n->cloned, key_of(n->st, track, node), key_of(n->st, track, original));
}

int graph_nodes_find(struct graph_nodes *n, const struct store *st)
{
    size_t nsite, nspan = store_nrow(st, TABLE_span);
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *site = store_span_site(st);
    struct span_tracks tracks = store_span_tracks(st);
    uint8_t *role = mem_calloc(nsite + 1, 1); /* enum role, per site */
    bool any = false;
    int rc = role ? 0 : OPM_ENOMEM;

    n->st = st;
    for (size_t i = 0; i < nsite && rc == 0; i++) {
        role[i] = (uint8_t)role_of(st, &sites[i]);
        any |= role[i] != ROLE_NONE;
    }
    for (size_t row = 0; any && row < nspan && rc == 0; row++)
        if (role[site[row]] != ROLE_NONE)
            rc = take(n, span_tracks_get(&tracks, row), row, (enum role)role[site[row]]);
    mem_free(role);
    return rc;
}

void graph_nodes_release(struct graph_nodes *n)
{
    u64map_release(&n->made);
    u64map_release(&n->cloned);
    *n = (struct graph_nodes){ 0 };
}

/* Where a node was made that has this number, or whose clone has. */
static const uint64_t *made_at(const struct graph_nodes *n, uint64_t key)
{
    for (int i = 0; i < CLONES_MAX; i++) {
        const uint64_t *original = u64map_get(&n->cloned, key);

        if (!original)
            return u64map_get(&n->made, key);
        key = *original;
    }
    return NULL;
}

uint32_t graph_nodes_op(const struct graph_nodes *n, uint32_t kernel)
{
    size_t nsite, nop;
    const struct site *sites;
    const uint32_t *site, *parent;
    const void *column;
    const uint64_t *at;
    struct span_tracks tracks;
    int64_t node;
    uint32_t row;

    if (!n->made.n || !span_arg_int(n->st, kernel, "graph node id", &node))
        return OPM_NULL_ID;
    tracks = store_span_tracks(n->st);
    at = made_at(n, key_of(n->st, span_tracks_get(&tracks, kernel), node));
    if (!at || store_column(n->st, TABLE_span, span_col_parent, &column))
        return OPM_NULL_ID;
    parent = column;
    nop = store_nrow(n->st, TABLE_op);
    sites = store_sites(n->st, &nsite);
    site = store_span_site(n->st);
    for (row = (uint32_t)*at; row != OPM_NULL_ID; row = parent ? parent[row] : OPM_NULL_ID)
        if (sites[site[row]].op < nop)
            return sites[site[row]].op;
    return OPM_NULL_ID;
}
