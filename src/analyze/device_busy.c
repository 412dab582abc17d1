/* device_busy.c -- when every device worked: its spans, united where they touch or overlap.
 *
 * A span that holds others of the hardware is not counted itself: the time between them is no work.
 * Where nothing was recorded on hardware, the operators that the host executed are the work. */
#include "analyze/analysis.h"
#include "analyze/devices.h"
#include "analyze/hardware.h"
#include "analyze/intervals.h"
#include "base/alloc.h"
#include "base/error.h"

struct busy_device {
    uint32_t track; /* the first of its tracks */
    struct intervals work;
};

struct scan {
    const struct store *st;
    const struct hardware *h;
    const int64_t *ts, *dur;
    const uint32_t *track, *site;
    const struct site *sites;
    bool *holds; /* per span; NULL: none does */
    struct busy_device *device;
    size_t ndevice, cap;
    uint32_t *device_of; /* per track; OPM_NULL_ID: not known yet */
    size_t ntrack, nrow;
};

static bool works(const struct scan *s, size_t row)
{
    if (s->dur[row] < 0 || s->track[row] >= s->ntrack)
        return false;
    if (!s->h->any)
        return s->sites[s->site[row]].op != OPM_NULL_ID;
    return s->h->role[s->site[row]] != HARDWARE_NOT && !(s->holds && s->holds[row]);
}

static int mark_holders(struct scan *s)
{
    const uint32_t *parent = s->h->parent;

    if (!parent)
        return 0;
    s->holds = mem_calloc(s->nrow + 1, sizeof(*s->holds));
    if (!s->holds)
        return OPM_ENOMEM;
    for (size_t row = 0; row < s->nrow; row++)
        if (parent[row] != OPM_NULL_ID && s->h->role[s->site[row]] != HARDWARE_NOT)
            s->holds[parent[row]] = true;
    return 0;
}

static struct busy_device *device_of(struct scan *s, uint32_t track)
{
    if (s->device_of[track] == OPM_NULL_ID) {
        uint32_t i = 0;

        while (i < s->ndevice && !track_same_device(s->st, s->device[i].track, track))
            i++;
        if (i == s->ndevice) {
            if (!GROW(s->device, s->cap, s->ndevice + 1))
                return NULL;
            s->device[s->ndevice++] = (struct busy_device){ .track = track };
        }
        s->device_of[track] = i;
    }
    return &s->device[s->device_of[track]];
}

static int scan_spans(struct scan *s)
{
    for (size_t row = 0; row < s->nrow; row++) {
        struct busy_device *d;

        if (!works(s, row))
            continue;
        d = device_of(s, s->track[row]);
        if (!d || !intervals_add(&d->work, s->ts[row], s->ts[row] + s->dur[row]))
            return OPM_ENOMEM;
    }
    return 0;
}

static int add_rows(const struct scan *s, struct table *out)
{
    int rc = 0;

    for (size_t i = 0; i < s->ndevice; i++) {
        const struct busy_device *d = &s->device[i];
        struct cell c[device_busy_col_COUNT] = { 0 };

        c[device_busy_col_device] = store_cell(s->st, TABLE_track, d->track, track_col_device);
        c[device_busy_col_host] = store_cell(s->st, TABLE_track, d->track, track_col_host);
        c[device_busy_col_rank] = store_cell(s->st, TABLE_track, d->track, track_col_rank);
        for (size_t k = 0; rc == 0 && k < d->work.n; k++) {
            c[device_busy_col_ts] = cell_i64(d->work.at[k].from_ns);
            c[device_busy_col_dur] = cell_i64(d->work.at[k].to_ns - d->work.at[k].from_ns);
            rc = table_add(out, c);
        }
    }
    return rc;
}

int analyze_device_busy(const struct store *st, struct table *out, opm_error *err)
{
    struct scan s = { .st = st,
                      .nrow = store_nrow(st, TABLE_span),
                      .ntrack = store_nrow(st, TABLE_track) };
    const void *columns[3] = { 0 };
    struct hardware h;
    size_t nsite;
    int rc = hardware_find(&h, st);

    s.h = &h;
    s.site = store_span_site(st);
    s.sites = store_sites(st, &nsite);
    if (rc == 0 && (store_column(st, TABLE_span, span_col_ts, &columns[0]) < 0 ||
                    store_column(st, TABLE_span, span_col_dur, &columns[1]) < 0 ||
                    store_column(st, TABLE_span, span_col_track, &columns[2]) < 0))
        rc = OPM_ENOMEM;
    s.ts = columns[0];
    s.dur = columns[1];
    s.track = columns[2];
    if (rc == 0 && s.ts && s.dur && s.track) {
        s.device_of = mem_alloc((s.ntrack + 1) * sizeof(*s.device_of));
        rc = s.device_of ? mark_holders(&s) : OPM_ENOMEM;
        for (size_t i = 0; rc == 0 && i < s.ntrack; i++)
            s.device_of[i] = OPM_NULL_ID;
        if (rc == 0)
            rc = scan_spans(&s);
        if (rc == 0)
            rc = add_rows(&s, out);
    }
    for (size_t i = 0; i < s.ndevice; i++)
        intervals_release(&s.device[i].work);
    mem_free(s.device);
    mem_free(s.device_of);
    mem_free(s.holds);
    hardware_release(&h);
    return rc < 0 ? opm__fail(err, rc, "device_busy: out of memory") : 0;
}
