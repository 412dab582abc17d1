/* replay.c -- see replay.h. */
#include "import/graph/replay.h"

#include "base/alloc.h"
#include "base/error.h"
#include "import/common/span_args.h"
#include "import/graph/around.h"
#include "import/graph/nodes.h"
#include "import/graph/op_copy.h"
#include "import/graph/sequence.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So much of a replay must be found for a capture to be of it. */
#define SHARE_TO_BE_IT 0.8
/* Of a few kernels all must be: any capture has some of them. */
#define FEW_KERNELS 8
/* Rows by graph and position; beyond it kernels stay under their launch. */
#define POSITIONS_MAX 20000

/* Where operators can come from. */
enum origin { FROM_CAPTURE, FROM_TRACE, FROM_LAUNCHES, FROM_POSITION, ORIGIN_COUNT };

struct kernel {
    uint32_t replay;
    uint32_t row; /* span */
    uint32_t name;
    int64_t node;
};

struct replay {
    uint32_t launch; /* span */
    size_t first, n; /* kernels */
    uint32_t graph;
};

/* A capture that a graph may be of, and the partner of each of its kernels there. */
struct candidate {
    size_t capture;
    uint32_t *to; /* NULL: each its own place */
};

/* Replays with the same names in the same order. */
struct graph {
    size_t example; /* a replay */
    enum origin origin;
    struct candidate *candidate;
    size_t ncandidate, candidate_cap;
    size_t last; /* candidate that was taken last; SIZE_MAX: none */
    size_t matched;
    uint32_t *position; /* row of op of every kernel that has no other, made when needed */
};

struct linker {
    struct store *st;
    const char *name;
    struct strpool names;
    struct graph_nodes nodes;
    struct captures from[FROM_POSITION]; /* by origin */
    struct op_copier copier[FROM_POSITION];
    struct u64map ops; /* what makes an operator -> row of st */
    struct kernel *kernel;
    size_t nkernel, kernel_cap;
    struct replay *replay;
    size_t nreplay, replay_cap;
    struct graph *graph;
    size_t ngraph, graph_cap;
    uint32_t *sequence; /* names of all kernels, replay by replay */
    size_t npositions;
    struct u64map sites; /* site and op -> site with the op */
    str_id phase;
    double best_share; /* of a replay in a capture that was not taken for it */
    int64_t count[ORIGIN_COUNT], ns[ORIGIN_COUNT];
    struct arena arena;
};

static void release(struct linker *l)
{
    for (int i = 0; i < FROM_POSITION; i++) {
        captures_release(&l->from[i]);
        op_copier_release(&l->copier[i]);
    }
    for (size_t i = 0; i < l->ngraph; i++)
        mem_free(l->graph[i].candidate);
    graph_nodes_release(&l->nodes);
    strpool_release(&l->names);
    u64map_release(&l->ops);
    u64map_release(&l->sites);
    mem_free(l->kernel);
    mem_free(l->replay);
    mem_free(l->graph);
    mem_free(l->sequence);
    arena_release(&l->arena);
}

static const char *site_name(const struct linker *l, const struct site *site)
{
    return site->name ? store_text(l->st, site->name) : "";
}

static bool launches_graph(const struct linker *l, const struct site *site)
{
    return strstr(site_name(l, site), "GraphLaunch") != NULL;
}

/* What devices ran for launches of graphs, in order of time. */
static int find_kernels(struct linker *l)
{
    str_id hardware = strpool_find(store_strings(l->st), "hardware", 8);
    size_t nsite, nspan = store_nrow(l->st, TABLE_span);
    const struct site *sites = store_sites(l->st, &nsite);
    const uint32_t *site = store_span_site(l->st);
    uint8_t *launches = mem_calloc(nsite + 1, 1);
    struct u64map by_correlation = { 0 };
    const void *column = NULL;
    const int64_t *correlation;
    bool any = false;
    int rc = launches ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < nsite && rc == 0; i++) {
        launches[i] = sites[i].layer != hardware && launches_graph(l, &sites[i]);
        any |= launches[i];
    }
    if (any && rc == 0)
        rc = store_column(l->st, TABLE_span, span_col_correlation, &column);
    correlation = column;
    for (size_t row = 0; correlation && row < nspan && rc == 0; row++) {
        if (!launches[site[row]] || correlation[row] == OPM_NULL_I64)
            continue;
        if (!GROW(l->replay, l->replay_cap, l->nreplay + 1))
            rc = OPM_ENOMEM;
        else
            rc = u64map_put(&by_correlation, (uint64_t)correlation[row], l->nreplay);
        if (rc == 0)
            l->replay[l->nreplay++] = (struct replay){ .launch = (uint32_t)row };
    }
    for (size_t row = 0; l->nreplay && row < nspan && rc == 0; row++) {
        const uint64_t *of;
        const char *name;
        str_id id;

        if (sites[site[row]].layer != hardware || correlation[row] == OPM_NULL_I64)
            continue;
        of = u64map_get(&by_correlation, (uint64_t)correlation[row]);
        if (!of)
            continue;
        name = site_name(l, &sites[site[row]]);
        if (!GROW(l->kernel, l->kernel_cap, l->nkernel + 1) ||
            strpool_intern(&l->names, name, strlen(name), &id))
            rc = OPM_ENOMEM;
        else
            l->kernel[l->nkernel++] =
                (struct kernel){ (uint32_t)*of, (uint32_t)row, id, OPM_NULL_I64 };
    }
    u64map_release(&by_correlation);
    mem_free(launches);
    return rc;
}

static int by_replay(const void *a, const void *b)
{
    const struct kernel *x = a, *y = b;

    if (x->replay != y->replay)
        return x->replay < y->replay ? -1 : 1;
    if (x->node != y->node) /* nodes are numbered as they were captured */
        return x->node < y->node ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Kernels that run beside each other change places in time, but their nodes keep their numbers. If
 * one has none, time it is. */
static int sort_kernels(struct linker *l)
{
    qsort(l->kernel, l->nkernel, sizeof(*l->kernel), by_replay);
    for (size_t i = 0; i < l->nkernel;) {
        size_t end = i;
        bool all = true;

        for (; end < l->nkernel && l->kernel[end].replay == l->kernel[i].replay; end++)
            all = all &&
                  span_arg_int(l->st, l->kernel[end].row, "graph node id", &l->kernel[end].node);
        for (size_t k = i; k < end && !all; k++)
            l->kernel[k].node = OPM_NULL_I64;
        if (all)
            qsort(l->kernel + i, end - i, sizeof(*l->kernel), by_replay);
        l->replay[l->kernel[i].replay].first = i;
        l->replay[l->kernel[i].replay].n = end - i;
        i = end;
    }
    l->sequence = mem_alloc((l->nkernel + 1) * sizeof(*l->sequence));
    if (!l->sequence)
        return OPM_ENOMEM;
    for (size_t i = 0; i < l->nkernel; i++)
        l->sequence[i] = l->kernel[i].name;
    return 0;
}

static const uint32_t *names_of(const struct linker *l, size_t replay)
{
    return l->sequence + l->replay[replay].first;
}

static int find_graphs(struct linker *l)
{
    struct u64map by_hash = { 0 };
    int rc = 0;

    for (size_t i = 0; i < l->nreplay && rc == 0; i++) {
        struct replay *r = &l->replay[i];
        uint64_t hash = names_hash(names_of(l, i), r->n);
        const uint64_t *at = u64map_get(&by_hash, hash);

        if (!r->n)
            continue;
        if (at) {
            r->graph = (uint32_t)*at;
            continue;
        }
        r->graph = (uint32_t)l->ngraph;
        if (!GROW(l->graph, l->graph_cap, l->ngraph + 1) || u64map_put(&by_hash, hash, l->ngraph))
            rc = OPM_ENOMEM;
        else
            l->graph[l->ngraph++] =
                (struct graph){ .example = i, .origin = FROM_POSITION, .last = SIZE_MAX };
    }
    u64map_release(&by_hash);
    return rc;
}

static int add_candidate(struct graph *g, size_t capture, uint32_t *to)
{
    if (!GROW(g->candidate, g->candidate_cap, g->ncandidate + 1))
        return OPM_ENOMEM;
    g->candidate[g->ncandidate++] = (struct candidate){ capture, to };
    return 0;
}

static enum launch_kind kind_of(const char *name)
{
    return strncmp(name, "Memcpy", 6) == 0   ? LAUNCH_COPY
           : strncmp(name, "Memset", 6) == 0 ? LAUNCH_FILL
                                             : LAUNCH_KERNEL;
}

/* A capture that only says that something was launched: as many, of the same kinds. */
static bool fits_unnamed(const struct linker *l, const struct graph *g, const struct captures *c,
                         const struct capture *k)
{
    const struct replay *r = &l->replay[g->example];

    if (k->named || k->n != r->n)
        return false;
    for (size_t i = 0; i < k->n; i++)
        if (c->launch[k->first + i].kind !=
            kind_of(strpool_get(&l->names, l->kernel[r->first + i].name)))
            return false;
    return true;
}

/* Copies and fills have other names where they are launched: compared by kind. */
static int comparable(struct linker *l, const struct captures *c, const struct capture *k,
                      uint32_t **out)
{
    static const char *const words[] = { [LAUNCH_COPY] = "Memcpy", [LAUNCH_FILL] = "Memset" };
    uint32_t *to = mem_alloc((k->n + 1) * sizeof(*to));
    int rc = to ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < k->n && rc == 0; i++) {
        uint8_t kind = c->launch[k->first + i].kind;

        to[i] = c->name[k->first + i];
        if (kind != LAUNCH_KERNEL)
            rc = strpool_intern(&l->names, words[kind], 6, &to[i]);
    }
    *out = to;
    return rc;
}

/* The same of a replay. */
static int comparable_replay(struct linker *l, size_t replay, uint32_t *to)
{
    static const char *const words[] = { [LAUNCH_COPY] = "Memcpy", [LAUNCH_FILL] = "Memset" };
    const uint32_t *name = names_of(l, replay);

    for (size_t i = 0; i < l->replay[replay].n; i++) {
        enum launch_kind kind = kind_of(strpool_get(&l->names, name[i]));

        to[i] = name[i];
        if (kind != LAUNCH_KERNEL && strpool_intern(&l->names, words[kind], 6, &to[i]))
            return OPM_ENOMEM;
    }
    return 0;
}

static bool is_it(size_t matched, size_t n)
{
    return n < FEW_KERNELS ? matched == n : (double)matched >= SHARE_TO_BE_IT * (double)n;
}

/* Captures that have all of a graph, or else most; the best and those as good. */
static int match_captures(struct linker *l, struct graph *g, enum origin origin)
{
    struct captures *c = &l->from[origin];
    size_t n = l->replay[g->example].n, best = 0, best_away = SIZE_MAX;
    uint32_t *names = mem_alloc((n + 1) * sizeof(*names));
    int rc = names ? comparable_replay(l, g->example, names) : OPM_ENOMEM;

    for (size_t i = 0; i < c->ncapture && rc == 0; i++) {
        const struct capture *k = &c->capture[i];
        size_t matched = 0, ordered = 0, away = k->n > n ? k->n - n : n - k->n;
        uint32_t *with = NULL, *to = NULL;

        if (g->ncandidate && captures_alike(c, g->candidate[0].capture, i)) {
            matched = best;
            to = g->candidate[0].to;
        } else if (k->named) {
            rc = comparable(l, c, k, &with);
            if (rc == 0 && k->n == n && memcmp(with, names, n * sizeof(*with)) == 0) {
                matched = n;
            } else if (rc == 0 && best < n) {
                to = arena_alloc(&l->arena, n * sizeof(*to));
                rc = to ? sequence_align(names, n, with, k->n, to, &matched, &ordered) : OPM_ENOMEM;
            }
        } else if (fits_unnamed(l, g, c, k)) {
            matched = n;
        }
        mem_free(with);
        if (origin == FROM_CAPTURE && n)
            l->best_share = MAX(l->best_share, (double)matched / (double)n);
        if (rc || !is_it(matched, n) || matched < best || (matched == best && away > best_away))
            continue;
        if (matched > best || away < best_away)
            g->ncandidate = 0;
        best = matched;
        best_away = away;
        rc = add_candidate(g, i, to);
    }
    if (g->ncandidate) {
        g->origin = origin;
        g->matched = best;
    }
    mem_free(names);
    return rc;
}

/* Launches of the trace itself that are no graphs, thread by thread: one long capture each. */
struct single {
    uint32_t track, row; /* of the launch */
    uint32_t kernel;     /* span */
    uint32_t op;
};

static int by_launch(const void *a, const void *b)
{
    const struct single *x = a, *y = b;

    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

static int find_single(struct linker *l, struct single **out, size_t *out_n)
{
    str_id hardware = strpool_find(store_strings(l->st), "hardware", 8);
    size_t nsite, nspan = store_nrow(l->st, TABLE_span), nop = store_nrow(l->st, TABLE_op), cap = 0;
    const struct site *sites = store_sites(l->st, &nsite);
    const uint32_t *site = store_span_site(l->st);
    struct span_tracks tracks = store_span_tracks(l->st);
    struct u64map launch = { 0 };
    const void *correlations, *parents;
    const int64_t *correlation;
    int rc = store_column(l->st, TABLE_span, span_col_correlation, &correlations);

    if (rc == 0)
        rc = store_column(l->st, TABLE_span, span_col_parent, &parents);
    correlation = rc ? NULL : correlations;
    for (size_t row = 0; correlation && row < nspan && rc == 0; row++)
        if (correlation[row] != OPM_NULL_I64 && sites[site[row]].layer != hardware)
            rc = u64map_put(&launch, (uint64_t)correlation[row], row);
    for (size_t row = 0; correlation && row < nspan && rc == 0; row++) {
        const struct site *s = &sites[site[row]];
        const uint64_t *from;
        uint32_t op;

        if (s->layer != hardware || correlation[row] == OPM_NULL_I64)
            continue;
        from = u64map_get(&launch, (uint64_t)correlation[row]);
        if (!from || launches_graph(l, &sites[site[*from]]))
            continue;
        op = s->op < nop ? s->op : around_op(l->st, parents, (uint32_t)*from);
        if (op == OPM_NULL_ID)
            continue;
        if (!GROW(*out, cap, *out_n + 1))
            rc = OPM_ENOMEM;
        else
            (*out)[(*out_n)++] = (struct single){ span_tracks_get(&tracks, *from), (uint32_t)*from,
                                                  (uint32_t)row, op };
    }
    u64map_release(&launch);
    return rc;
}

static int take_single(struct linker *l)
{
    struct captures *c = &l->from[FROM_LAUNCHES];
    struct single *s = NULL;
    size_t n = 0, first = 0, nsite;
    int rc = find_single(l, &s, &n);
    const struct site *sites = store_sites(l->st, &nsite);
    const uint32_t *site = store_span_site(l->st);

    c->names = &l->names;
    if (n)
        qsort(s, n, sizeof(*s), by_launch);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const char *name = site_name(l, &sites[site[s[i].kernel]]);

        if (i && s[i].track != s[i - 1].track) {
            rc = captures_add(c, l->name, first, -1);
            first = c->nlaunch;
        }
        if (rc == 0)
            rc = captures_add_launch(
                c, name, (struct captured){ s[i].op, OPM_NULL_I64, (uint8_t)kind_of(name) });
    }
    if (rc == 0)
        rc = captures_add(c, l->name, first, -1);
    mem_free(s);
    return rc;
}

static int match_launches(struct linker *l, struct graph *g)
{
    struct captures *c = &l->from[FROM_LAUNCHES];
    const uint32_t *names = names_of(l, g->example);
    size_t n = l->replay[g->example].n;

    for (size_t i = 0; i < c->ncapture; i++) {
        const struct capture *k = &c->capture[i];
        const uint32_t *all = c->name + k->first;
        size_t at = sequence_find(names, n, all, k->n), offset = 0, from, end, matched, ordered;
        uint32_t *to;

        if (at == SIZE_MAX)
            at = sequence_seed(names, n, all, k->n, &offset);
        if (at == SIZE_MAX)
            continue;
        from = at > offset ? at - offset : 0;
        end = MIN(from + n + n / 4, k->n);
        to = arena_alloc(&l->arena, (n + 1) * sizeof(*to));
        if (!to || sequence_align(names, n, all + from, end - from, to, &matched, &ordered))
            return OPM_ENOMEM;
        if (!is_it(matched, n) || matched <= g->matched)
            continue;
        for (size_t j = 0; j < n; j++)
            to[j] += to[j] == SEQUENCE_NONE ? 0 : (uint32_t)from;
        g->ncandidate = 0;
        g->matched = matched;
        g->origin = FROM_LAUNCHES;
        if (add_candidate(g, i, to))
            return OPM_ENOMEM;
    }
    return 0;
}

static int match(struct linker *l)
{
    bool single = false;
    int rc = 0;

    for (size_t i = 0; i < l->ngraph && rc == 0; i++) {
        struct graph *g = &l->graph[i];

        rc = match_captures(l, g, FROM_CAPTURE);
        if (rc == 0 && g->origin == FROM_POSITION)
            rc = match_captures(l, g, FROM_TRACE);
        if (rc || g->origin != FROM_POSITION)
            continue;
        if (!single)
            rc = take_single(l);
        single = true;
        if (rc == 0)
            rc = match_launches(l, g);
    }
    return rc;
}

/* Of graphs that look alike the smallest that has room for the iteration; of those the one after
 * the one before, as pieces of a model come in turn. */
static size_t choose(const struct linker *l, struct graph *g, int64_t tokens)
{
    const struct capture *all = l->from[g->origin].capture;
    int64_t size = INT64_MAX;
    size_t first = SIZE_MAX;

    for (size_t i = 0; i < g->ncandidate && tokens >= 0; i++) {
        int64_t s = all[g->candidate[i].capture].size;

        if (s >= tokens && s < size)
            size = s;
    }
    for (size_t i = 0; i < g->ncandidate; i++) {
        if (size != INT64_MAX && all[g->candidate[i].capture].size != size)
            continue;
        if (first == SIZE_MAX)
            first = i;
        if (g->last == SIZE_MAX || i > g->last) {
            first = i;
            break;
        }
    }
    g->last = first;
    return first;
}

/* "cudaGraphLaunch 2 #14 kernel" */
static int position_op(struct linker *l, size_t graph, const struct replay *r, size_t i,
                       uint32_t *out)
{
    struct graph *g = &l->graph[graph];
    size_t nsite;
    const struct site *launch = &store_sites(l->st, &nsite)[store_span_site(l->st)[r->launch]];
    struct cell row[op_col_COUNT];
    struct buf text = { 0 };
    str_id name, type;
    int rc = 0;

    *out = OPM_NULL_ID;
    if (!g->position) {
        if (l->npositions + r->n > POSITIONS_MAX)
            return 0;
        g->position = arena_alloc(&l->arena, r->n * sizeof(*g->position));
        if (!g->position)
            return OPM_ENOMEM;
        l->npositions += r->n;
    }
    if (g->position[i]) {
        *out = g->position[i] - 1;
        return 0;
    }
    for (int c = 0; c < op_col_COUNT; c++)
        row[c] = cell_null();
    buf_addf(&text, "%s %zu #%zu %s", site_name(l, launch), graph + 1, i + 1,
             strpool_get(&l->names, l->kernel[r->first + i].name));
    rc = text.failed ? OPM_ENOMEM : store_str(l->st, buf_str(&text), text.len, &name);
    buf_release(&text);
    if (rc || store_cstr(l->st, "graph launch", &type))
        return OPM_ENOMEM;
    row[op_col_name] = cell_str(name);
    row[op_col_type] = cell_str(type);
    rc = store_add(l->st, TABLE_op, row, out);
    g->position[i] = *out + 1;
    return rc;
}

static int give_op(struct linker *l, uint32_t row, uint32_t op)
{
    uint32_t from = store_span_site(l->st)[row], to;
    uint64_t key = (uint64_t)from << 32 | op;
    const uint64_t *at = u64map_get(&l->sites, key);
    size_t nsite;
    struct site site;

    if (at)
        return store_span_set_site(l->st, row, (uint32_t)*at);
    site = store_sites(l->st, &nsite)[from];
    site.op = op;
    site.phase = l->phase;
    if (store_site(l->st, &site, &to) || u64map_put(&l->sites, key, to))
        return OPM_ENOMEM;
    return store_span_set_site(l->st, row, to);
}

/* The operator of a kernel by its partner. */
static int partner_op(struct linker *l, const struct graph *g, const struct candidate *with,
                      const struct kernel *kernel, size_t i, uint32_t *out)
{
    const struct captures *c = &l->from[g->origin];
    const struct capture *k = &c->capture[with->capture];
    uint32_t place = with->to ? with->to[i] : (uint32_t)i, op;
    size_t at = place == SEQUENCE_NONE ? SIZE_MAX : k->first + place;
    size_t node = captures_node(c, k, kernel->node);

    *out = OPM_NULL_ID;
    /* Numbers of nodes decide where both traces have them. */
    if (node != SIZE_MAX &&
        (c->launch[node].kind != LAUNCH_KERNEL || !c->name[node] || c->name[node] == kernel->name))
        at = node;
    if (at == SIZE_MAX)
        return 0;
    op = c->launch[at].op;
    if (op == OPM_NULL_ID || !c->ops) {
        *out = op;
        return 0;
    }
    return op_copy(&l->copier[g->origin], op, NULL, out);
}

static int link_replay(struct linker *l, const struct replay *r, const uint32_t *parent)
{
    struct graph *g = &l->graph[r->graph];
    const struct candidate *with = NULL;
    bool launched =
        around_op(l->st, parent, r->launch) != OPM_NULL_ID; /* it is that operator's work */
    int rc = 0;

    if (g->ncandidate) {
        size_t i = choose(l, g, around_tokens(l->st, parent, r->launch));

        with = &g->candidate[i];
        l->from[g->origin].capture[with->capture].used++;
    }
    for (size_t i = 0; i < r->n && rc == 0; i++) {
        uint32_t row = l->kernel[r->first + i].row, op = graph_nodes_op(&l->nodes, row);
        enum origin origin = op == OPM_NULL_ID ? g->origin : FROM_TRACE;

        if (with && op == OPM_NULL_ID)
            rc = partner_op(l, g, with, &l->kernel[r->first + i], i, &op);
        if (rc == 0 && op == OPM_NULL_ID) {
            origin = FROM_POSITION;
            rc = launched ? 0 : position_op(l, r->graph, r, i, &op);
        }
        l->count[origin]++;
        l->ns[origin] += MAX(store_i64_or(l->st, TABLE_span, row, span_col_dur, 0), (int64_t)0);
        if (rc == 0 && op != OPM_NULL_ID)
            rc = give_op(l, row, op);
    }
    return rc;
}

static int note(struct linker *l, const char *key, int64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    return store_meta(l->st, key, text);
}

static int note_all(struct linker *l)
{
    int64_t ns = 0, replays = 0;
    char share[32];
    int rc;

    for (int i = 0; i < ORIGIN_COUNT; i++)
        ns += l->ns[i];
    for (size_t i = 0; i < l->nreplay; i++)
        replays += l->replay[i].n > 0;
    rc = note(l, "graph.replays", replays);
    if (rc == 0)
        rc = note(l, "graph.graphs", (int64_t)l->ngraph);
    if (rc == 0)
        rc = note(l, "graph.kernels", (int64_t)l->nkernel);
    if (rc == 0)
        rc = note(l, "graph.kernels_by_capture", l->count[FROM_CAPTURE] + l->count[FROM_TRACE]);
    if (rc == 0)
        rc = note(l, "graph.kernels_by_launches", l->count[FROM_LAUNCHES]);
    snprintf(share, sizeof(share), "%.4f",
             ns ? 1 - (double)l->ns[FROM_POSITION] / (double)ns : 0.0);
    return rc ? rc : store_meta(l->st, "graph.aligned_share", share);
}

static int link_all(struct linker *l)
{
    const void *parent;
    int rc = store_column(l->st, TABLE_span, span_col_parent, &parent);

    store_amend_begin(l->st);
    if (rc == 0)
        rc = store_cstr(l->st, "kernel", &l->phase);
    for (int i = 0; i < FROM_POSITION; i++)
        l->copier[i] = (struct op_copier){ .to = l->st, .from = l->from[i].ops, .known = &l->ops };
    for (size_t i = 0; i < l->nreplay && rc == 0; i++)
        if (l->replay[i].n)
            rc = link_replay(l, &l->replay[i], parent);
    if (rc == 0)
        rc = note_all(l);
    return store_amend_end(l->st) ? OPM_ENOMEM : rc;
}

/* Why captures that were given are of no use. */
static int refuse(const struct linker *l, const struct replay_files *files, opm_error *err)
{
    const char *path = files->path[0];
    const char *more = files->n > 1 ? " (and the others)" : "";

    if (!l->nkernel)
        return opm__fail(err, OPM_EFORMAT,
                         "%s%s: does not belong to %s, which %s; leave --capture out", path, more,
                         l->name,
                         l->nreplay ? "launches graphs but has no kernel of one"
                                    : "launches no graph (cudaGraphLaunch, hipGraphLaunch)");
    return opm__fail(
        err, OPM_EFORMAT,
        "%s%s: does not belong to %s: at most %.0f %% of the kernels of a graph that "
        "is replayed there are in one that is captured here (%.0f %% are needed); give "
        "the capture of the same run",
        path, more, l->name, 100 * l->best_share, 100 * SHARE_TO_BE_IT);
}

static int read_captures(struct linker *l, const struct replay_files *files,
                         const struct import_options *opts, opm_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < files->n && rc == 0; i++)
        rc = captures_read(&l->from[FROM_CAPTURE], files->path[i], opts, err);
    for (size_t i = 0; i < files->nfound && rc == 0; i++) {
        rc = captures_read(&l->from[FROM_CAPTURE], files->found[i], opts, err);
        if (rc != OPM_EFORMAT)
            continue;
        store_stat(l->st, STAT_graph_capture_unread, 1);
        rc = 0;
    }
    return rc;
}

/* Captures that nobody asked for, and of which no graph is replayed. */
static void count_strange(const struct linker *l, const struct replay_files *files)
{
    const struct captures *c = &l->from[FROM_CAPTURE];

    for (size_t i = 0; i < files->nfound; i++) {
        bool fits = false, any = false;

        for (size_t k = 0; k < c->ncapture; k++)
            any |= strcmp(c->path[c->capture[k].path], files->found[i]) == 0;
        for (size_t g = 0; g < l->ngraph && !fits; g++)
            for (size_t k = 0; l->graph[g].origin == FROM_CAPTURE && k < l->graph[g].ncandidate;
                 k++)
                fits |= strcmp(c->path[c->capture[l->graph[g].candidate[k].capture].path],
                               files->found[i]) == 0;
        if (any && !fits)
            store_stat(l->st, STAT_graph_capture_strange, 1);
    }
}

static int link_kernels(struct linker *l, const struct replay_files *captures,
                        const struct import_options *opts, opm_error *err)
{
    bool used = false;
    int rc = find_kernels(l);

    if (rc || !l->nkernel)
        return rc || !captures->n ? rc : refuse(l, captures, err);
    if (sort_kernels(l) || find_graphs(l) || captures_init(&l->from[FROM_CAPTURE], &l->names) ||
        captures_init(&l->from[FROM_TRACE], &l->names) ||
        captures_take(&l->from[FROM_TRACE], l->st, l->name) || graph_nodes_find(&l->nodes, l->st))
        return OPM_ENOMEM;
    rc = read_captures(l, captures, opts, err);
    if (rc == 0)
        rc = match(l);
    for (size_t i = 0; i < l->ngraph && rc == 0; i++)
        used |= l->graph[i].origin == FROM_CAPTURE;
    if (rc == 0 && captures->n && !used)
        return refuse(l, captures, err);
    if (rc == 0)
        count_strange(l, captures);
    return rc ? rc : link_all(l);
}

int replays_link(struct store *st, const char *name, const struct replay_files *captures,
                 const struct import_options *opts, opm_error *err)
{
    struct linker l = { .st = st, .name = name };
    int rc;

    /* A trace that was linked before it was saved stays as it is. */
    if (!captures->n && !captures->nfound && store_meta_get(st, "graph.kernels"))
        return 0;
    rc = link_kernels(&l, captures, opts, err);
    release(&l);
    return rc == OPM_ENOMEM ? opm__fail(err, rc, "%s: out of memory", name) : rc;
}
