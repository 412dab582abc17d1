/* trace_rig.h -- random but repeatable stores, for the tests of analyses and SQL. */
#ifndef TRACE_RIG_H
#define TRACE_RIG_H

#include "store/store.h"
#include "unit.h"

static uint64_t rig_state = 1;

static inline uint32_t rig_random(uint32_t below)
{
    rig_state ^= rig_state << 13;
    rig_state ^= rig_state >> 7;
    rig_state ^= rig_state << 17;
    return (uint32_t)(rig_state >> 33) % below;
}

/* Strings that are easy to get wrong: case, numbers in disguise, bytes that are not UTF-8, NUL. */
struct rig_string {
    const char *s;
    size_t len;
};
static const struct rig_string rig_strings[] = {
    { NULL, 0 },
    { "", 0 },
    { "Conv", 4 },
    { "conv", 4 },
    { "MatMul", 6 },
    { "5", 1 },
    { "05", 2 },
    { "5.0", 3 },
    { "Conv\0hidden", 11 },
    { "\xff\xfe", 2 },
    { "caf\xc3\xa9", 5 },
    { "Conv ", 5 },
    { "zeta", 4 },
    { "a", 1 },
    { "aa", 2 },
    { "-1", 2 },
};

/* All return 0 or OPM_ENOMEM, so that failing allocations can be tested too. */
static inline int rig_str(struct store *st, size_t i, struct cell *out)
{
    str_id id = 0;
    int rc = 0;

    i %= ARRAY_SIZE(rig_strings);
    if (rig_strings[i].s)
        rc = store_str(st, rig_strings[i].s, rig_strings[i].len, &id);
    *out = cell_str(id);
    return rc;
}

static inline int rig_cstr(struct store *st, const char *s, struct cell *out)
{
    str_id id = 0;
    int rc = store_cstr(st, s, &id);

    *out = cell_str(id);
    return rc;
}

struct rig {
    uint32_t ntrack;
    uint32_t nop;
    uint32_t nsite;
    uint32_t nstep;
    uint32_t nrecord;
    uint32_t nspan;
    bool warmup; /* some steps and records are */
};

static inline int rig_statics(struct store *st, const struct rig *rig)
{
    struct cell track[track_col_COUNT] = { 0 }, op[op_col_COUNT] = { 0 };
    struct cell tensor[op_tensor_col_COUNT] = { 0 };
    int rc = 0;

    for (uint32_t i = 0; i < rig->ntrack && rc == 0; i++) {
        rc = rig_cstr(st, i % 5 == 4 ? "async" : "thread", &track[track_col_kind]);
        if (rc == 0)
            rc = rig_str(st, i, &track[track_col_name]);
        track[track_col_tid] = cell_i64(i * 10);
        if (rc == 0)
            rc = store_add(st, TABLE_track, track, NULL);
    }
    for (uint32_t i = 0; i < rig->nop && rc == 0; i++) {
        rc = rig_str(st, i + 3, &op[op_col_name]);
        if (rc == 0)
            rc = rig_str(st, i % 4, &op[op_col_type]);
        op[op_col_flops] = i % 3 ? cell_i64(1000 * (int64_t)i) : cell_null();
        op[op_col_bytes] = i % 4 ? cell_i64(100 * (int64_t)i) : cell_null();
        if (rc == 0)
            rc = store_add(st, TABLE_op, op, NULL);
        tensor[op_tensor_col_op] = cell_id(i);
        tensor[op_tensor_col_slot] = cell_i64(i % 2);
        if (rc == 0)
            rc = rig_cstr(st, i % 3 ? "input" : "output", &tensor[op_tensor_col_io]);
        if (rc == 0)
            rc = store_add(st, TABLE_op_tensor, tensor, NULL);
    }
    return rc;
}

/* *out_n: how many distinct ones there are. */
static inline int rig_sites(struct store *st, const struct rig *rig, uint32_t *out_n)
{
    static const char *const layers[] = { NULL, "app", "framework", "runtime", "hardware" };
    static const char *const phases[] = { NULL, "forward", "reshape", "backward" };
    int rc = 0;

    *out_n = 0;
    for (uint32_t i = 0; i < rig->nsite && rc == 0; i++) {
        struct site site = { 0 };
        struct cell name = { 0 }, cat = { 0 }, layer = { 0 }, phase = { 0 };
        uint32_t number;

        rc = rig_str(st, rig_random(1000), &name);
        if (rc == 0)
            rc = rig_str(st, rig_random(5), &cat);
        if (rc == 0)
            rc = rig_cstr(st, layers[rig_random(ARRAY_SIZE(layers))], &layer);
        if (rc == 0)
            rc = rig_cstr(st, phases[rig_random(ARRAY_SIZE(phases))], &phase);
        site.name = name.kind == CELL_STR ? name.str : 0;
        site.cat = cat.kind == CELL_STR ? cat.str : 0;
        site.layer = layer.kind == CELL_STR ? layer.str : 0;
        site.phase = phase.kind == CELL_STR ? phase.str : 0;
        site.op = rig->nop && rig_random(3) ? rig_random(rig->nop) : OPM_NULL_ID;
        if (rc == 0)
            rc = store_site(st, &site, &number);
        if (rc == 0)
            *out_n = MAX(*out_n, number + 1);
    }
    return rc;
}

static inline int rig_regions(struct store *st, const struct rig *rig, int64_t end)
{
    struct cell step[step_col_COUNT] = { 0 }, record[record_col_COUNT] = { 0 };
    int rc = 0;

    for (uint32_t i = 0; i < rig->nstep && rc == 0; i++) {
        rc = rig_str(st, i % 3 + 2, &step[step_col_model]);
        step[step_col_num] = cell_i64(i);
        step[step_col_ts] = cell_i64(rig_random((uint32_t)end));
        step[step_col_dur] = cell_i64(i % 10 == 7 ? -1 : (int64_t)rig_random((uint32_t)end / 8));
        step[step_col_warmup] = cell_i64(rig->warmup && i % 3 == 0);
        step[step_col_track] = rig->ntrack ? cell_id(rig_random(rig->ntrack)) : cell_null();
        if (rc == 0)
            rc = store_add(st, TABLE_step, step, NULL);
    }
    for (uint32_t i = 0; i < rig->nrecord && rc == 0; i++) {
        rc = rig_str(st, i % 2 + 3, &record[record_col_label]);
        record[record_col_ts] = cell_i64(rig_random((uint32_t)end));
        record[record_col_dur] = cell_i64(rig_random((uint32_t)end / 8));
        record[record_col_warmup] = cell_i64(rig->warmup && i % 4 == 0);
        if (rc == 0)
            rc = store_add(st, TABLE_record, record, NULL);
    }
    for (uint32_t i = 0; i < 3 * rig->nstep && rc == 0; i++) {
        struct cell sample[sample_col_COUNT] = { 0 };

        sample[sample_col_ts] = cell_i64(rig_random((uint32_t)end));
        sample[sample_col_track] = rig->ntrack ? cell_id(rig_random(rig->ntrack)) : cell_null();
        sample[sample_col_value] = cell_f64(rig_random(100) / 4.0);
        rc = store_add(st, TABLE_sample, sample, NULL);
    }
    return rc;
}

static inline int rig_spans(struct store *st, const struct rig *rig, uint32_t nsite, int64_t end)
{
    int rc = store_meta(st, "rig", "yes");

    for (uint32_t i = 0; i < rig->nspan && rc == 0; i++) {
        struct span_row row = SPAN_ROW_INIT;
        struct cell flow[flow_col_COUNT] = { 0 };
        uint32_t id;

        /* Few distinct times, so that many spans start together. */
        row.ts_ns = rig_random((uint32_t)end / 4) * 4;
        row.dur_ns = rig_random(50) ? (int64_t)rig_random(1 + rig_random(200)) : -1;
        row.track = rig_random(20) ? rig_random(rig->ntrack) : OPM_NULL_ID;
        row.site = rig_random(nsite);
        if (rig_random(4) == 0)
            row.correlation = rig_random(20);
        if (rig_random(5) == 0) {
            char args[64];
            struct cell cell = { 0 };

            snprintf(args, sizeof(args), "{\"bytes\":%u,\"to\":[%u,2]}", i % 7, i % 3);
            rc = rig_cstr(st, args, &cell);
            row.args = cell.str;
        }
        if (rc == 0)
            rc = store_add_span(st, &row, &id);
        if (rc == 0 && i > 3 && rig_random(10) == 0) {
            flow[flow_col_src] = cell_id(id);
            flow[flow_col_dst] = cell_id(rig_random(id));
            rc = store_add(st, TABLE_flow, flow, NULL);
        }
    }
    return rc;
}

/* A frozen store; the same for the same seed. */
static inline int rig_make(struct store **out, const struct rig *rig, uint64_t seed)
{
    int64_t end = 64 + (int64_t)rig->nspan * 20;
    uint32_t nsite = 0;
    struct store *st;
    int rc = store_new(&st);

    if (rc < 0)
        return rc;
    rig_state = seed * 2654435761u + 88172645463325252u;
    rc = rig_statics(st, rig);
    if (rc == 0)
        rc = rig_sites(st, rig, &nsite);
    if (rc == 0)
        rc = rig_regions(st, rig, end);
    if (rc == 0)
        rc = rig_spans(st, rig, nsite, end);
    if (rc == 0)
        rc = store_finish(st);
    if (rc < 0)
        store_free(st);
    else
        *out = st;
    return rc;
}

#endif
