/* mindspore_hwts.c -- what the task scheduler of an Ascend device recorded: starts and ends of
 * tasks.
 *
 * Records of 64 bytes, or the same as text. The task of an operator counts if its end is the next
 * thing that happens to any operator, as MindSpore itself has it; tasks that belong to no operator
 * (most are of collectives) are paired by their number and keep it as their name. */
#include "import/mindspore/mindspore_int.h"

#include "base/rd.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RECORD_BYTES 64
#define PROGRESS_RECORDS 65536
/* Numbers of tasks are unique from here on; below, within their stream only. */
#define TASK_UNIQUE 25000

enum record_type { TASK_START, TASK_END, BLOCK_START, BLOCK_END, BLOCK_COUNTERS };

uint64_t ms_task_key(uint64_t stream, uint64_t task)
{
    return (task < TASK_UNIQUE ? stream : UINT32_MAX) << 32 | (uint32_t)task;
}

static int other_task(struct ms *m, struct ms_device *d, uint64_t key, uint32_t stream, bool end,
                      int64_t ns)
{
    struct ms_span span = { .cat = m->w.task, .layer = m->w.runtime, .op = OPM_NULL_ID };
    const uint64_t *began = u64map_get(&d->task_began, key);
    char name[32];
    int rc;

    if (!end) {
        store_stat(m->st, STAT_task_unpaired, began && (int64_t)*began != OPM_NULL_I64);
        return u64map_put(&d->task_began, key, (uint64_t)ns);
    }
    if (!began || (int64_t)*began == OPM_NULL_I64) {
        store_stat(m->st, STAT_task_unpaired, 1);
        return 0;
    }
    span.ts_ns = (int64_t)*began;
    span.dur_ns = ns - span.ts_ns;
    snprintf(name, sizeof(name), "task %" PRIu32, (uint32_t)key);
    rc = u64map_put(&d->task_began, key, (uint64_t)OPM_NULL_I64);
    if (!rc)
        rc = store_cstr(m->st, name, &span.name);
    if (!rc)
        rc = ms_track(m, d, MS_TRACK_STREAM, stream, &span.track);
    return rc ? rc : ms_span(m, d, &span);
}

int ms_task(struct ms *m, struct ms_device *d, uint64_t key, uint32_t stream, bool end,
            uint64_t ticks)
{
    const uint64_t *op = u64map_get(&d->task, key);
    struct ms_start began = d->began;
    int64_t ns;
    uint32_t track;
    char args[48];
    str_id args_id;
    int rc;

    if (!ms_ticks(ticks, &ns)) {
        store_stat(m->st, STAT_bad_time, 1);
        return 0;
    }
    if (!op)
        return other_task(m, d, key, stream, end, ns);
    if (!end) {
        store_stat(m->st, STAT_task_unpaired, began.op != OPM_NULL_ID);
        d->began = (struct ms_start){ key, (uint32_t)*op, ns, stream };
        return 0;
    }
    d->began.op = OPM_NULL_ID;
    if (began.op != *op) {
        store_stat(m->st, STAT_task_unpaired, 1 + (began.op != OPM_NULL_ID));
        return 0;
    }
    snprintf(args, sizeof(args), "{\"task\":%" PRIu32 "}", (uint32_t)key);
    rc = store_cstr(m->st, args, &args_id);
    if (!rc)
        rc = ms_track(m, d, MS_TRACK_STREAM, began.stream, &track);
    return rc ? rc : ms_op_span(m, d, track, began.op, began.ts_ns, ns - began.ts_ns, args_id);
}

int ms_tasks_end(struct ms *m, struct ms_device *d)
{
    store_stat(m->st, STAT_task_unpaired, d->began.op != OPM_NULL_ID);
    d->began.op = OPM_NULL_ID;
    for (size_t i = 0; i < d->task_began.cap; i++)
        if (d->task_began.used[i] && (int64_t)d->task_began.entry[i].value != OPM_NULL_I64)
            store_stat(m->st, STAT_task_unpaired, 1);
    return 0;
}

int ms_read_hwts(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct rd r = rd_of(data, len);
    int rc = 0;

    d->began.op = OPM_NULL_ID;
    for (size_t n = 0; rd_left(&r) >= RECORD_BYTES && rc == 0; n++) {
        struct rd one = rd_of(rd_bytes(&r, RECORD_BYTES), RECORD_BYTES);
        unsigned type = rd_u8(&one) & 7;
        uint16_t task;
        uint64_t ticks;
        uint32_t stream;

        rd_bytes(&one, 5); /* core, two unknown bytes, block */
        task = rd_u16(&one);
        ticks = rd_u64(&one);
        stream = rd_u32(&one);
        if (type <= TASK_END)
            rc = ms_task(m, d, ms_task_key(stream, task), stream, type == TASK_END, ticks);
        else
            store_stat(m->st, type <= BLOCK_COUNTERS ? STAT_record_unused : STAT_record_unknown, 1);
        if (n % PROGRESS_RECORDS == 0 && m->src->progress &&
            m->src->progress(m->src->user, len - rd_left(&r), len))
            return OPM_ELIMIT;
    }
    store_stat(m->st, STAT_file_truncated, rd_left(&r) && rd_left(&r) < RECORD_BYTES);
    return rc ? rc : ms_tasks_end(m, d);
}

/* "Start of task  4    0        0         517_4    15490185488116  517" */
static int hwts_line(struct ms *m, struct ms_device *d, struct text line)
{
    bool start = text_starts(line, "Start of task"), end = text_starts(line, "End of task");
    struct text rest = line, word[6];
    uint64_t stream, task, ticks;

    if (!start && !end) {
        bool block = text_starts(line, "Start of block") || text_starts(line, "End of block") ||
                     text_starts(line, "Block PMU");

        store_stat(m->st, block ? STAT_record_unused : STAT_record_unknown, 1);
        return 0;
    }
    for (int i = 0; i < 3; i++)
        text_word(&rest, &word[0]);
    for (int i = 0; i < 6; i++) {
        if (!text_word(&rest, &word[i])) {
            store_stat(m->st, STAT_bad_row, 1);
            return 0;
        }
    }
    if (memchr(word[3].p, '_', word[3].len))
        text_after(word[3], "_", &word[3]);
    if (!text_u64(word[3], &task) || !text_u64(word[4], &ticks) || !text_u64(word[5], &stream)) {
        store_stat(m->st, STAT_bad_row, 1);
        return 0;
    }
    return ms_task(m, d, ms_task_key(stream, task), (uint32_t)stream, end, ticks);
}

int ms_read_hwts_txt(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text rest = { (const char *)data, len }, line;
    int rc = 0;

    d->began.op = OPM_NULL_ID;
    while (rc == 0 && text_line(&rest, &line))
        if (line.len && line.p[0] != '=' && !text_starts(line, "Type"))
            rc = hwts_line(m, d, line);
    return rc ? rc : ms_tasks_end(m, d);
}
