/* event_kind.c -- what the events of a shape mean, worked out once. */
#include "import/json/events.h"

#include <string.h>

/* Of the names of the series of one event: each begins with that of the event. */
#define SERIES_NAMES_MAX_BYTES 65536

static const char event_phases[] =
    "BEXiIRPOVvNDc(),"; /* kept as spans or instants; see kind_act() */

/* Is this member of the event told by a column, or by what becomes of the event? */
static bool is_column(const struct kind *k, const struct member *m)
{
    const struct json_reader *key = &m->key;

    if (json_read_is(key, "name") || json_read_is(key, "cat") || json_read_is(key, "ph") ||
        json_read_is(key, "pid") || json_read_is(key, "tid") || json_read_is(key, "ts") ||
        json_read_is(key, "args"))
        return true;
    if (json_read_is(key, "dur"))
        return k->ph == 'X';
    if (json_read_is(key, "id") || json_read_is(key, "bp"))
        return k->act == ACT_FLOW || k->act == ACT_COUNTER;
    return json_read_is(key, "s") && k->act == ACT_INSTANT && member_is(m, "t");
}

static void form_member(struct events *ev, const struct event_info *info, const struct member *m,
                        uint16_t *index, unsigned *n, bool *first)
{
    if (!*first)
        buf_addc(&ev->form, ',');
    *first = false;
    buf_addc(&ev->form, '"');
    buf_add(&ev->form, m->key.text, m->key.len);
    buf_adds(&ev->form, "\":");
    member_form(info, m, &ev->form, index, n);
}

/* Make the form of a kind's args: those of the event but for `taken`, and members of the event that
 * nothing else holds. */
static int make_form(struct events *ev, struct kind *k, const struct event_info *info,
                     const struct member *taken)
{
    uint16_t index[2 * EVENT_HOLES_MAX];
    unsigned n = 0;
    bool first = true;
    const struct member *args = member_find(&info->event, "args");

    k->form = OPM_NULL_ID;
    buf_clear(&ev->form);
    buf_addc(&ev->form, '{');
    for (size_t i = 0; i < info->args.n; i++)
        if (&info->args.m[i] != taken &&
            !(ev->dialect->taken && ev->dialect->taken(&info->args.m[i])))
            form_member(ev, info, &info->args.m[i], index, &n, &first);
    for (size_t i = 0; i < info->event.n; i++) {
        const struct member *m = &info->event.m[i];

        if (!is_column(k, m) ||
            (m == args && args->token != JSON_OBJECT && args->token != JSON_NULL))
            form_member(ev, info, m, index, &n, &first);
    }
    if (!strchr("XBEiI", k->ph) && k->act == ACT_INSTANT) {
        buf_addf(&ev->form, "%s\"ph\":\"%c\"", first ? "" : ",", k->ph);
        first = false;
    }
    buf_addc(&ev->form, '}');
    if (ev->form.failed)
        return OPM_ENOMEM;
    if (first)
        return 0;
    if (store_args_form(ev->st, ev->form.data, ev->form.len, &k->form))
        return OPM_ENOMEM;
    k->nform = (uint16_t)n;
    k->form_value = arena_alloc(ev->arena, (n + 1) * sizeof(*index));
    if (!k->form_value)
        return OPM_ENOMEM;
    memcpy(k->form_value, index, n * sizeof(*index));
    k->form_run = n > 0;
    for (unsigned i = 1; i < n; i++)
        k->form_run &= index[i] == index[0] + i;
    return 0;
}

static enum act kind_act(char ph)
{
    switch (ph) {
    case 'X':
        return ACT_SPAN;
    case 'B':
        return ACT_BEGIN;
    case 'E':
        return ACT_END;
    case 'C':
        return ACT_COUNTER;
    case 'M':
        return ACT_META;
    case 's':
    case 't':
    case 'f':
        return ACT_FLOW;
    case 'b':
    case 'n':
    case 'e':
    case 'S':
    case 'T':
    case 'p':
    case 'F':
    case 'N':
    case 'D':
        return ACT_ASYNC;
    default:
        return memchr(event_phases, ph, sizeof(event_phases) - 1) ? ACT_INSTANT : ACT_SKIP;
    }
}

static int member_str(struct events *ev, const struct event_info *info, const struct member *m,
                      str_id *out)
{
    *out = 0;
    if (!m || m->token == JSON_NULL)
        return 0;
    buf_clear(&ev->text);
    member_text(info, m, NULL, &ev->text);
    return ev->text.failed || store_str(ev->st, buf_str(&ev->text), ev->text.len, out) ? OPM_ENOMEM
                                                                                       : 0;
}

/* What an id adds to a key: nothing if it is a hole, whose value comes later. */
static int id_key(struct events *ev, const struct event_info *info, const struct member *m,
                  uint16_t *value, uint64_t *key)
{
    str_id text;

    *value = m ? m->value : NO_VALUE;
    if (!m || m->value != NO_VALUE)
        return 0;
    if (member_str(ev, info, m, &text))
        return OPM_ENOMEM;
    *key = events_hash(*key, text);
    return 0;
}

/* The id of an async or flow event: id, or id2 with its scope; and "scope". */
static int find_id(struct events *ev, struct kind *k, const struct event_info *info)
{
    const struct member *id = member_find(&info->event, "id");
    const struct member *id2 = member_find(&info->event, "id2");
    const struct member *pid = member_find(&info->event, "pid");
    const struct event_shape *sh = info->shape;
    str_id scope;

    k->id = NO_VALUE;
    if (member_str(ev, info, member_find(&info->event, "scope"), &scope))
        return OPM_ENOMEM;
    k->key = events_hash(k->key, scope);
    if (!id && id2 && id2->token == JSON_OBJECT) {
        struct json_reader r = json_read_of(sh->strict + id2->from, id2->to - id2->from);
        struct member m = { .value = NO_VALUE };
        uint16_t value = 0;

        json_read_next(&r);
        if (json_read_next(&r) != JSON_KEY)
            return 0;
        if (json_read_is(&r, "local")) {
            uint32_t process;

            if (events_process(ev, info, pid, &process))
                return OPM_ENOMEM;
            k->key = events_hash(k->key, (uint64_t)process + 1);
        }
        m.token = json_read_next(&r);
        m.at = r;
        m.from = (uint32_t)(r.text - sh->strict);
        m.to = m.from + (uint32_t)r.len;
        for (unsigned i = 0; i < sh->nhole; i++) {
            const struct hole *h = &sh->strict_hole[i];

            if (h->at == m.from && h->len == r.len) {
                m.value = value;
                m.hole = h->type;
            }
            value = (uint16_t)(value + (h->type == HOLE_DECIMAL ? 2 : 1));
        }
        if (m.token != JSON_STRING && m.token != JSON_NUMBER)
            return 0;
        return id_key(ev, info, &m, &k->id, &k->key);
    }
    return id_key(ev, info, id, &k->id, &k->key);
}

/* The series of a counter event, one for each number in args. */
static int make_series(struct events *ev, struct kind *k, const struct event_info *info)
{
    const struct member *id = member_find(&info->event, "id");
    size_t numbers = 0, name_len;
    uint32_t process;
    str_id id_text;

    if (events_process(ev, info, member_find(&info->event, "pid"), &process) ||
        member_str(ev, info, id, &id_text))
        return OPM_ENOMEM;
    k->series = arena_alloc(ev->arena, (info->args.n + 1) * sizeof(*k->series));
    if (!k->series)
        return OPM_ENOMEM;
    for (size_t i = 0; i < info->args.n; i++)
        numbers += info->args.m[i].token == JSON_NUMBER || info->args.m[i].value != NO_VALUE;
    name_len =
        strpool_len(store_strings(ev->st), k->name) + strpool_len(store_strings(ev->st), id_text);
    if (numbers * name_len > SERIES_NAMES_MAX_BYTES) {
        store_stat(ev->st, STAT_event_too_long, 1);
        return 0;
    }
    for (size_t i = 0; i < info->args.n; i++) {
        const struct member *m = &info->args.m[i];
        struct series *s = &k->series[k->nseries];

        *s = (struct series){ .value = m->value, .hole = m->hole };
        if (m->value == NO_VALUE && ((m->token != JSON_NUMBER && m->token != JSON_STRING) ||
                                     !json_read_real(&m->at, &s->same))) {
            store_stat(ev->st, STAT_counter_without_number, 1);
            continue;
        }
        buf_clear(&ev->text);
        buf_adds(&ev->text, store_text(ev->st, k->name));
        if (id)
            buf_addf(&ev->text, " %s", store_text(ev->st, id_text));
        if (numbers > 1 || (!json_read_is(&m->key, "value") &&
                            !json_read_is(&m->key, store_text(ev->st, k->name)))) {
            buf_addc(&ev->text, ' ');
            json_read_text(&m->key, &ev->text);
        }
        if (ev->text.failed ||
            events_series(ev, process, 0, buf_str(&ev->text), ev->text.len, &s->track))
            return OPM_ENOMEM;
        k->nseries++;
    }
    return 0;
}

/* Times: as a hole, or not at all. */
static void find_times(struct kind *k, const struct event_info *info)
{
    const struct member *ts = member_find(&info->event, "ts");
    const struct member *dur = member_find(&info->event, "dur");

    k->ts = ts && ts->hole == HOLE_TIME ? ts->value : NO_VALUE;
    k->dur = dur && dur->hole == HOLE_TIME ? dur->value : NO_VALUE;
}

int events_make_kind(struct events *ev, struct event_shape *sh)
{
    const struct event_info *info = &ev->info;
    struct kind *k = arena_alloc(ev->arena, sizeof(*k));
    const struct member *ph, *m, *taken = NULL;
    struct site site = { .layer = ev->layer_app, .op = OPM_NULL_ID };

    if (!k || !event_info_read(&ev->info, sh))
        return OPM_ENOMEM;
    k->dirt = sh->dirt;
    k->correlation = k->external = k->bind_id = k->id = NO_VALUE;
    ph = member_find(&info->event, "ph");
    k->ph = ph && ph->token == JSON_STRING && ph->at.len == 1 ? ph->at.text[0] : '\0';
    if (!ph) /* an entry of "samples" */
        k->ph = member_find(&info->event, "sf") || member_find(&info->event, "weight") ? 'P' : '\0';
    k->act = (uint8_t)kind_act(k->ph);
    sh->user = k;
    if (k->act == ACT_SKIP || k->act == ACT_META)
        return 0;
    find_times(k, info);
    m = member_find(&info->event, "name");
    if (member_str(ev, info, m, &k->name) ||
        member_str(ev, info, member_find(&info->event, "cat"), &k->cat))
        return OPM_ENOMEM;
    if (!k->name)
        k->name = ev->empty;
    site.name = k->name;
    site.cat = k->cat;
    if (k->act == ACT_COUNTER)
        return make_series(ev, k, info);
    if (k->act == ACT_ASYNC ? events_async_track(ev, k, info)
                            : events_track(ev, info, member_find(&info->event, "pid"),
                                           member_find(&info->event, "tid"), &k->track))
        return OPM_ENOMEM;
    if (k->act == ACT_FLOW || k->act == ACT_ASYNC) {
        k->key = events_hash(k->cat, k->act == ACT_FLOW || strchr("STpFND", k->ph) ? k->name : 0);
        if (find_id(ev, k, info))
            return OPM_ENOMEM;
    }
    if (k->act == ACT_FLOW) {
        k->bind_enclosing = k->ph != 'f' || member_is(member_find(&info->event, "bp"), "e");
        return 0;
    }
    m = member_find(&info->event, "bind_id");
    if (m) {
        k->bind_key = events_hash(0x62696e64, 0);
        if (id_key(ev, info, m, &k->bind_id, &k->bind_key))
            return OPM_ENOMEM;
        m = member_find(&info->event, "flow_in");
        k->flow_in = m && m->token == JSON_TRUE;
        m = member_find(&info->event, "flow_out");
        k->flow_out = m && m->token == JSON_TRUE;
    }
    if (ev->dialect->args_correlation) {
        taken = member_find(&info->args, "correlation");
        if (taken && taken->value != NO_VALUE && taken->hole == HOLE_INT)
            k->correlation = taken->value;
        else
            taken = NULL;
    }
    if (ev->dialect->kind && ev->dialect->kind(ev, k, info, &site))
        return OPM_ENOMEM;
    if (store_site(ev->st, &site, &k->site))
        return OPM_ENOMEM;
    return make_form(ev, k, info, taken);
}
