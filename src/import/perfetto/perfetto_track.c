/* perfetto_track.c -- descriptors of tracks, processes and threads into rows of track. */
#include "import/perfetto/perfetto_int.h"

#include "base/alloc.h"

#include <string.h>

struct pf_track *pf_track(struct pf *p, uint64_t uuid)
{
    const uint64_t *at = u64map_get(&p->track_at, uuid);

    if (at)
        return &p->track[*at];
    if (p->ntrack >= OPM_NULL_ID || !GROW(p->track, p->track_cap, p->ntrack + 1) ||
        u64map_put(&p->track_at, uuid, p->ntrack)) {
        p->b.rc = OPM_ENOMEM;
        return NULL;
    }
    p->track[p->ntrack] = (struct pf_track){ .uuid = uuid,
                                             .pid = OPM_NULL_I64,
                                             .tid = OPM_NULL_I64,
                                             .unit_multiplier = 1,
                                             .row = OPM_NULL_ID,
                                             .lane = OPM_NULL_ID };
    return &p->track[p->ntrack++];
}

static str_id text_of(struct pf *p, const struct pb_field *f)
{
    return build_str(&p->b, (const char *)f->p, f->len);
}

static void note_process(struct pf *p, int64_t pid, str_id name)
{
    if (name && pid != OPM_NULL_I64 && u64map_put(&p->process_name, (uint64_t)pid, name))
        p->b.rc = OPM_ENOMEM;
}

/* pid=1, cmdline=2, process_name=6 */
static int64_t read_process(struct pf *p, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    int64_t pid = OPM_NULL_I64;
    str_id name = 0, cmdline = 0;
    struct pb_field g;

    while (pb_next(&r, &g)) {
        if (g.number == 1 && g.wire == PB_VARINT)
            pid = (int32_t)g.value;
        else if (g.number == 2 && g.wire == PB_LEN && !cmdline)
            cmdline = text_of(p, &g);
        else if (g.number == 6 && g.wire == PB_LEN)
            name = text_of(p, &g);
    }
    note_process(p, pid, name ? name : cmdline);
    return pid;
}

/* pid=1, tid=2, thread_name=5 */
static str_id read_thread(struct pf *p, const struct pb_field *f, int64_t *pid, int64_t *tid,
                          int64_t *reference_us)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    str_id name = 0;

    while (pb_next(&r, &g)) {
        if (g.number == 1 && g.wire == PB_VARINT)
            *pid = (int32_t)g.value;
        else if (g.number == 2 && g.wire == PB_VARINT)
            *tid = (int64_t)g.value;
        else if (g.number == 5 && g.wire == PB_LEN)
            name = text_of(p, &g);
        else if (g.number == 6 && g.wire == PB_VARINT && reference_us)
            *reference_us = (int64_t)g.value;
    }
    return name;
}

/* type=1, unit=3, unit_multiplier=4, is_incremental=5, unit_name=6 */
static void read_counter(struct pf *p, struct pf_track *t, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    t->is_counter = true;
    while (pb_next(&r, &g)) {
        if (g.number == 6 && g.wire == PB_LEN)
            t->unit_name = text_of(p, &g);
        if (g.wire != PB_VARINT)
            continue;
        if (g.number == 1)
            t->counter_type = g.value;
        else if (g.number == 3)
            t->unit = g.value;
        else if (g.number == 4 && g.value)
            t->unit_multiplier = g.value;
        else if (g.number == 5)
            t->incremental = g.value != 0;
    }
}

static void read_field(struct pf *p, struct pf_track *t, const struct pb_field *g)
{
    str_id name;

    if (g->wire == PB_LEN) {
        switch (g->number) {
        case 2:
        case 10: /* static_name */
            t->name = text_of(p, g);
            break;
        case 3:
            t->pid = read_process(p, g);
            t->is_process = true;
            break;
        case 4:
            name = read_thread(p, g, &t->pid, &t->tid, NULL);
            t->name = name ? name : t->name;
            t->is_thread = true;
            break;
        case 8:
            read_counter(p, t, g);
            break;
        case 14:
            t->description = text_of(p, g);
            break;
        case 16:
            t->merge_key = text_of(p, g);
            break;
        default:
            break;
        }
    } else if (g->wire == PB_VARINT) {
        if (g->number == 5)
            t->parent = g->value;
        else if (g->number == 15)
            t->by_key = g->value == 3;
    }
}

static uint64_t thread_key(int64_t pid, int64_t tid)
{
    return (uint64_t)pid << 32 ^ (uint64_t)tid;
}

static uint64_t merge_key(const struct pf_track *t)
{
    return t->parent * 0x9e3779b97f4a7c15u ^ t->merge_key;
}

void pf_track_descriptor(struct pf *p, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct pf_track *t;
    struct pb_field g;
    uint64_t uuid = 0;

    while (pb_next(&r, &g))
        if (g.number == 1 && g.wire == PB_VARINT)
            uuid = g.value;
    t = pf_track(p, uuid);
    if (!t)
        return;
    for (r = rd_of(f->p, f->len); pb_next(&r, &g);)
        read_field(p, t, &g);
    if (t->is_thread &&
        u64map_put(&p->described_thread, thread_key(t->pid, t->tid), (uint64_t)(t - p->track)))
        p->b.rc = OPM_ENOMEM;
    if (t->by_key && t->merge_key && !t->described) {
        const uint64_t *n = u64map_get(&p->merged_count, merge_key(t));

        if (u64map_put(&p->merged_count, merge_key(t), n ? *n + 1 : 1))
            p->b.rc = OPM_ENOMEM;
    }
    t->described = true;
    if (t->name && strcmp(store_text(p->b.st, t->name), "about this trace") == 0 && !t->parent)
        p->ours = true;
}

void pf_process_descriptor(struct pf *p, const struct pb_field *f)
{
    read_process(p, f);
}

void pf_thread_descriptor(struct pf *p, struct pf_seq *s, const struct pb_field *f)
{
    str_id name;

    s->pid = s->tid = OPM_NULL_I64;
    name = read_thread(p, f, &s->pid, &s->tid, &s->reference_ts_us);
    s->has_thread = s->tid != OPM_NULL_I64;
    if (!s->has_thread || !name)
        return;
    if (!u64map_get(&p->thread_track, thread_key(s->pid, s->tid)) &&
        u64map_put(&p->thread_track, thread_key(s->pid, s->tid),
                   (uint64_t)name << 32 | OPM_NULL_ID))
        p->b.rc = OPM_ENOMEM;
}

static str_id process_of(const struct pf *p, int64_t pid)
{
    const uint64_t *name = pid == OPM_NULL_I64 ? NULL : u64map_get(&p->process_name, (uint64_t)pid);

    return name ? (str_id)*name : 0;
}

/* The nearest track above that belongs to a process says which. */
static int64_t pid_of(const struct pf *p, const struct pf_track *t)
{
    for (int depth = 0; depth < 64; depth++) {
        const uint64_t *at;

        if (t->pid != OPM_NULL_I64)
            return t->pid;
        at = t->parent ? u64map_get(&p->track_at, t->parent) : NULL;
        if (!at)
            break;
        t = &p->track[*at];
    }
    return OPM_NULL_I64;
}

static str_id unit_of(struct pf *p, const struct pf_track *t)
{
    static const char *const units[] = { NULL, "ns", "count", "bytes" };

    if (t->unit_name)
        return t->unit_name;
    if (t->counter_type == 1)
        return build_cstr(&p->b, "ns");
    if (t->counter_type == 2)
        return build_cstr(&p->b, "count");
    return t->unit < ARRAY_SIZE(units) ? build_cstr(&p->b, units[t->unit]) : 0;
}

static str_id counter_name(struct pf *p, const struct pf_track *t)
{
    const uint64_t *at = t->parent ? u64map_get(&p->track_at, t->parent) : NULL;
    const char *of = at && p->track[*at].name ? store_text(p->b.st, p->track[*at].name) : "";
    const char *what = t->counter_type == 1 ? "thread time" : "instructions";

    if (t->name || !t->counter_type || t->counter_type > 2)
        return t->name;
    return build_fmt(&p->b, "%s%s%s", of, *of ? " " : "", what);
}

/* Our own export says so in the description. */
static str_id device_of(struct pf *p, const struct pf_track *t)
{
    const char *text = t->description ? store_text(p->b.st, t->description) : NULL;

    if (!p->ours || !text || strncmp(text, "device ", 7) != 0)
        return 0;
    return build_str(&p->b, text + 7, strcspn(text + 7, ","));
}

/* Whether there are several tracks of which viewers make one line: their spans overlap. */
static bool drawn_as_one(const struct pf *p, const struct pf_track *t)
{
    const uint64_t *n =
        t->by_key && t->merge_key ? u64map_get(&p->merged_count, merge_key(t)) : NULL;

    return n && *n > 1;
}

static uint32_t make_row(struct pf *p, struct pf_track *t)
{
    struct track_row row = TRACK_ROW_INIT;

    row.pid = pid_of(p, t);
    row.process = process_of(p, row.pid);
    row.tid = t->tid;
    row.name = t->name;
    row.device = device_of(p, t);
    row.kind = t->is_thread ? "thread" : drawn_as_one(p, t) ? "async" : "stream";
    if (t->is_counter) {
        row.kind = "counter";
        row.name = counter_name(p, t);
        row.unit = unit_of(p, t);
    } else if (t->is_process && !t->name) {
        row.name = row.process;
    } else if (!t->uuid && !t->described) {
        row.name = build_cstr(&p->b, "default track");
    }
    return build_track(&p->b, &row);
}

uint32_t pf_track_row(struct pf *p, struct pf_track *t)
{
    uint64_t key = merge_key(t);
    const uint64_t *at;

    if (t->row != OPM_NULL_ID)
        return t->row;
    if (!t->by_key || !t->merge_key)
        return t->row = make_row(p, t);
    at = u64map_get(&p->merged, key);
    t->row = at ? (uint32_t)*at : make_row(p, t);
    if (!at && !p->b.rc && u64map_put(&p->merged, key, t->row))
        p->b.rc = OPM_ENOMEM;
    return t->row;
}

static uint32_t lane_new(struct pf *p, uint32_t track)
{
    if (p->nlane >= OPM_NULL_ID || !GROW(p->lane, p->lane_cap, p->nlane + 1)) {
        p->b.rc = OPM_ENOMEM;
        return OPM_NULL_ID;
    }
    p->lane[p->nlane] = (struct pf_lane){ track };
    return (uint32_t)p->nlane++;
}

uint32_t pf_track_lane(struct pf *p, struct pf_track *t)
{
    if (t->lane == OPM_NULL_ID)
        t->lane = lane_new(p, pf_track_row(p, t));
    return t->lane;
}

uint32_t pf_thread_lane(struct pf *p, int64_t pid, int64_t tid)
{
    uint64_t key = thread_key(pid, tid);
    const uint64_t *at = u64map_get(&p->thread_track, key), *described;
    struct track_row row = TRACK_ROW_INIT;
    uint32_t lane;

    if (at && (uint32_t)*at != OPM_NULL_ID)
        return (uint32_t)*at;
    /* A thread that has a descriptor of the new kind is that one. */
    described = u64map_get(&p->described_thread, key);
    if (described) {
        lane = pf_track_lane(p, &p->track[*described]);
    } else {
        row.kind = "thread";
        row.name = at ? (str_id)(*at >> 32) : 0;
        row.pid = pid;
        row.tid = tid;
        row.process = process_of(p, pid);
        lane = lane_new(p, build_track(&p->b, &row));
    }
    if (u64map_put(&p->thread_track, key, lane))
        p->b.rc = OPM_ENOMEM;
    return lane;
}

uint32_t pf_async_lane(struct pf *p, str_id name, int64_t pid, uint64_t id, uint64_t space)
{
    uint64_t key = (id * 0x9e3779b97f4a7c15u ^ space) * 0xbf58476d1ce4e5b9u;
    const uint64_t *at = u64map_get(&p->async_track, key);
    struct track_row row = TRACK_ROW_INIT;
    uint32_t lane;

    if (at)
        return (uint32_t)*at;
    row.kind = "stream";
    row.name = name;
    row.pid = pid;
    row.process = process_of(p, pid);
    lane = lane_new(p, build_track(&p->b, &row));
    if (u64map_put(&p->async_track, key, lane))
        p->b.rc = OPM_ENOMEM;
    return lane;
}
