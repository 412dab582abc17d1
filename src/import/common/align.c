/* align.c -- several sources on one time axis, and the table that lists them.
 *
 * Time 0 of the first source with a known clock stays where it is. Others with a known clock move
 * by the difference: of the monotonic clocks where both were taken since the same boot, else of the
 * wall clocks. Where sources of one boot read their times off the same counter, they agree to the
 * tick already (import_set_ticks()), and only its rate is corrected, in all of them alike. Those
 * without move so that they start when the trace starts; that is a guess and is counted. Numbers
 * that correlate spans mean something within a source only: from the second on they are made
 * different. */
#include "import/sources.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define RATE_OVER_NS 1000000 /* readings that are closer tell less than the first guess */

/* What lies between can't but count from 1970: 2001 to 2100. */
#define UNIX_FROM_NS ((int64_t)1000000000000000000)
#define UNIX_TO_NS ((int64_t)4102444800000000000)

static bool clock_known(const struct source *s)
{
    return s->clock.realtime_ns != OPM_NULL_I64 || s->clock.boot;
}

/* Wraps around rather than overflows: times of a damaged file may be anything. */
static int64_t sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Times that count from 1970 are held as times since the source's start, like all others. */
static void rebase(struct source *s)
{
    if (!clock_known(s) && s->start_ns >= UNIX_FROM_NS && s->start_ns <= UNIX_TO_NS)
        s->clock.realtime_ns = 0;
    if (s->clock.realtime_ns != 0 || s->start_ns == OPM_NULL_I64)
        return;
    s->clock.realtime_ns = s->start_ns;
    s->offset_ns = sub(0, s->start_ns);
}

/* Whether the times of s are made of the ticks of another source. */
static bool follows(const struct sources *all, const struct source *s)
{
    return s->clock.ticks.rate > 0 && &all->item[s->clock.leader] != s;
}

/* The rate of the counter that s leads, ns per tick: by the two readings farthest apart of all that
 * share it. */
static double shared_rate(const struct sources *all, const struct source *s)
{
    struct import_ticks t = s->clock.ticks;
    int64_t ns;

    for (size_t i = 0; i < all->n; i++) {
        const struct import_ticks *other = &all->item[i].clock.ticks;

        if (!(other->rate > 0) || &all->item[all->item[i].clock.leader] != s)
            continue;
        if (other->first < t.first) {
            t.first = other->first;
            t.first_ns = other->first_ns;
        }
        if (other->last > t.last) {
            t.last = other->last;
            t.last_ns = other->last_ns;
        }
    }
    ns = sub(t.last_ns, t.first_ns);
    return t.last > t.first && ns > RATE_OVER_NS ? (double)ns / (double)(t.last - t.first)
                                                 : s->clock.ticks.rate;
}

/* Those that follow a source go where it goes, and all by the rate that is best known. */
static void follow(struct sources *all)
{
    for (size_t i = 0; i < all->n; i++) {
        struct source *s = &all->item[i], *leader = &all->item[s->clock.leader];
        bool followed = false;

        for (size_t k = i + 1; k < all->n && s->clock.ticks.rate > 0; k++)
            followed |= all->item[k].clock.ticks.rate > 0 && all->item[k].clock.leader == i;
        if (followed)
            s->stretch = shared_rate(all, s) / s->clock.ticks.rate - 1;
        if (!follows(all, s))
            continue;
        s->offset_ns = leader->offset_ns;
        s->stretch = leader->stretch;
        s->aligned = "cycle counter";
        s->moved_ns = add(s->offset_ns, sub(s->clock.ticks.first_ns, leader->clock.ticks.first_ns));
    }
}

/* The first source of the same boot, which may be s. */
static struct source *first_of_boot(const struct sources *all, const struct source *s)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->item[i].clock.boot && strcmp(all->item[i].clock.boot, s->clock.boot) == 0)
            return &all->item[i];
    return NULL;
}

/* Those of another machine than ref's move together: by the wall clock of the first of them. */
static void align_known(const struct sources *all, struct source *s, struct source *ref)
{
    struct source *near = s->clock.boot ? first_of_boot(all, s) : NULL;
    int64_t by;

    if (near && near != s && (near == ref || near->aligned)) {
        by = add(sub(s->clock.monotonic_ns, near->clock.monotonic_ns), near->offset_ns);
        s->aligned = "monotonic clock";
    } else if (s->clock.realtime_ns != OPM_NULL_I64 && ref->clock.realtime_ns != OPM_NULL_I64) {
        by = sub(s->clock.realtime_ns, ref->clock.realtime_ns);
        s->aligned = "wall clock";
    } else {
        return;
    }
    s->offset_ns = add(s->offset_ns, by);
}

/* Earliest of what is in place, or OPM_NULL_I64. */
static int64_t trace_start(const struct sources *all, const struct source *ref)
{
    int64_t start = OPM_NULL_I64;

    for (size_t i = 0; i < all->n; i++) {
        const struct source *s = &all->item[i];
        int64_t t = s->start_ns;

        if (t == OPM_NULL_I64 || (s != ref && !s->aligned))
            continue;
        t = add(t, s->offset_ns);
        start = start == OPM_NULL_I64 ? t : MIN(start, t);
    }
    return start;
}

static void align_all(struct sources *all)
{
    struct source *ref = NULL;
    int64_t start;

    for (size_t i = 0; i < all->n; i++) {
        struct source *s = &all->item[i];

        s->start_ns = store_part_start(all->st, &s->part);
        rebase(s);
        if (!clock_known(s))
            continue;
        if (!ref)
            ref = s;
        else if (!follows(all, s))
            align_known(all, s, ref);
        s->moved_ns = s->offset_ns;
    }
    follow(all);
    for (size_t i = 0; i < all->n && !ref; i++)
        if (all->item[i].start_ns != OPM_NULL_I64)
            ref = &all->item[i];
    if (!ref)
        return;
    start = trace_start(all, ref);
    for (size_t i = 0; i < all->n; i++) {
        struct source *s = &all->item[i];
        int64_t t = s->start_ns;

        if (s == ref || s->aligned || t == OPM_NULL_I64)
            continue;
        s->offset_ns = start == OPM_NULL_I64 ? 0 : sub(start, t);
        s->moved_ns = s->offset_ns;
        s->aligned = "start of the trace";
        store_stat(all->st, STAT_clock_unknown, 1);
    }
}

static int note_clock(struct sources *all, size_t i, bool plain)
{
    const struct source_clock *c = &all->item[i].clock;
    struct import_source src = { .index = plain ? 0 : (int)i };
    char text[32];
    int rc = 0;

    if (c->boot)
        rc = import_meta(all->st, &src, "clock.boot", c->boot);
    snprintf(text, sizeof(text), "%" PRId64, c->monotonic_ns);
    if (!rc && c->boot)
        rc = import_meta(all->st, &src, "clock.start_monotonic_ns", text);
    snprintf(text, sizeof(text), "%" PRId64, c->realtime_ns);
    if (!rc && c->realtime_ns != OPM_NULL_I64)
        rc = import_meta(all->st, &src, "clock.start_realtime_ns", text);
    return rc;
}

static int add_row(struct store *st, const struct source_file *f, const char *format,
                   const char *aligned, int64_t offset_ns)
{
    static const char *const states[] = {
        [IMPORT_READ] = "read", [IMPORT_SKIPPED] = "skipped", [IMPORT_FAILED] = "failed"
    };
    str_id path, format_id, state, note, aligned_id;

    if (store_cstr(st, f->path, &path) || store_cstr(st, format, &format_id) ||
        store_cstr(st, states[f->state], &state) || store_cstr(st, f->note, &note) ||
        store_cstr(st, aligned, &aligned_id))
        return OPM_ENOMEM;
    return store_add(st, TABLE_source,
                     (struct cell[source_col_COUNT]){
                         [source_col_path] = cell_str(path),
                         [source_col_format] = cell_str(format_id),
                         [source_col_state] = cell_str(state),
                         [source_col_bytes] = cell_i64(f->bytes),
                         [source_col_note] = cell_str(note),
                         [source_col_part_of] = cell_id(f->part_of),
                         [source_col_offset] = aligned ? cell_i64(offset_ns) : cell_null(),
                         [source_col_aligned] = cell_str(aligned_id),
                     },
                     NULL);
}

int sources_align(struct sources *all)
{
    size_t first = store_nrow(all->st, TABLE_source); /* those that a file of tables brought */
    bool noted = false;

    align_all(all);
    for (size_t i = 0; i < all->n; i++) {
        struct source *s = &all->item[i];
        struct source_file f = { s->path, s->note, s->state, s->bytes, OPM_NULL_ID };

        struct store_place place = { .source = (uint32_t)(first + i),
                                     .instance = s->instance,
                                     .rank = s->rank,
                                     .shift_ns = s->offset_ns,
                                     .stretch = s->stretch,
                                     .correlation = (int64_t)i * STORE_CORRELATION_STEP };

        if (store_part_settle(all->st, &s->part, &place) ||
            add_row(all->st, &f, s->format, s->aligned, s->moved_ns))
            return OPM_ENOMEM;
        if (clock_known(s)) {
            if (note_clock(all, i, !noted))
                return OPM_ENOMEM;
            noted = true;
        }
    }
    for (size_t i = 0; i < all->nfile; i++) {
        struct source_file f = all->file[i];
        const char *format = NULL;

        if (f.part_of != OPM_NULL_ID) {
            format = all->item[f.part_of].format;
            f.part_of += (uint32_t)first;
        }
        if (add_row(all->st, &f, format, NULL, 0))
            return OPM_ENOMEM;
    }
    return 0;
}
