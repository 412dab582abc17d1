/* opm_launches.c -- arrows from a launch to what it made a device do.
 *
 * Both ends carry the same correlation number. Of several calls with one number (a runtime's and
 * the driver's inside it) the one that began first is the launch. */
#include "import/opm/opm_events.h"

#include "base/alloc.h"

int launches_add(struct launches *l, int64_t correlation, uint32_t span, bool hardware)
{
    if (!GROW(l->linked, l->cap, l->n + 1))
        return OPM_ENOMEM;
    l->linked[l->n++] = (struct linked){ correlation, span, hardware };
    return 0;
}

void launches_release(struct launches *l)
{
    mem_free(l->linked);
    *l = (struct launches){ 0 };
}

int launches_place(const struct launches *l, struct store *st)
{
    struct u64map calls = { 0 }; /* correlation to the span of the call */
    str_id kind = 0;
    int rc = l->n ? store_cstr(st, "launch", &kind) : 0;

    for (size_t i = 0; i < l->n && rc == 0; i++) {
        const struct linked *e = &l->linked[i];
        const uint64_t *other = e->hardware ? NULL : u64map_get(&calls, (uint64_t)e->correlation);

        if (e->hardware ||
            (other && store_span_get_ts(st, (uint32_t)*other) <= store_span_get_ts(st, e->span)))
            continue;
        rc = u64map_put(&calls, (uint64_t)e->correlation, e->span);
    }
    for (size_t i = 0; i < l->n && rc == 0; i++) {
        const struct linked *e = &l->linked[i];
        const uint64_t *call = e->hardware ? u64map_get(&calls, (uint64_t)e->correlation) : NULL;
        struct cell row[flow_col_COUNT];

        if (!call)
            continue;
        row[flow_col_src] = cell_id((uint32_t)*call);
        row[flow_col_dst] = cell_id(e->span);
        row[flow_col_kind] = cell_str(kind);
        rc = store_add(st, TABLE_flow, row, NULL);
    }
    u64map_release(&calls);
    return rc;
}
