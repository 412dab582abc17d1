/* hardware.c -- see hardware.h. */
#include "analyze/hardware.h"

#include "base/alloc.h"

#include <string.h>
#include <strings.h>

/* Known by their category, or by how their names begin. */
static bool moves_data(const struct store *st, const struct site *site)
{
    static const char *const cats[] = { "gpu_memcpy", "gpu_memset", "memcpy", "memset" };
    static const char *const names[] = { "Load", "Store" };
    static const char *const begins[] = { "memcpy", "memset", "[cuda memcpy", "[cuda memset" };
    const char *cat = store_text(st, site->cat), *name = store_text(st, site->name);

    for (size_t i = 0; cat && i < ARRAY_SIZE(cats); i++)
        if (strcmp(cat, cats[i]) == 0)
            return true;
    for (size_t i = 0; name && i < ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    for (size_t i = 0; name && i < ARRAY_SIZE(begins); i++)
        if (strncasecmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

/* What holds others even if none of them was recorded. */
static bool is_run(const struct store *st, const struct site *site)
{
    const char *cat = store_text(st, site->cat), *name = store_text(st, site->name);

    return cat && name && strcmp(cat, "NPU") == 0 &&
           (strcmp(name, "Execution") == 0 || strcmp(name, "Task") == 0);
}

int hardware_find(struct hardware *h, const struct store *st)
{
    str_id hardware = strpool_find(store_strings(st), "hardware", 8);
    size_t nsite, nrow = store_nrow(st, TABLE_span);
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *site = store_span_site(st);
    const void *parent;

    *h = (struct hardware){ .role = mem_calloc(nsite, sizeof(*h->role)) };
    if (!h->role)
        return OPM_ENOMEM;
    for (size_t i = 0; i < nsite; i++) {
        if (!hardware || sites[i].layer != hardware)
            continue;
        h->role[i] = is_run(st, &sites[i])       ? HARDWARE_HOLDS
                     : moves_data(st, &sites[i]) ? HARDWARE_MOVES
                                                 : HARDWARE_COMPUTES;
        h->any = true;
    }
    if (!h->any || !nrow)
        return 0;
    if (store_column(st, TABLE_span, span_col_parent, &parent) < 0)
        return OPM_ENOMEM;
    h->parent = parent;
    for (size_t row = 0; h->parent && row < nrow; row++) {
        uint32_t up = h->role[site[row]] == HARDWARE_NOT ? OPM_NULL_ID : h->parent[row];

        if (up != OPM_NULL_ID && h->role[site[up]] != HARDWARE_NOT)
            h->role[site[up]] = HARDWARE_HOLDS;
    }
    return 0;
}

int hardware_opened_runs(const struct store *st, bool **out)
{
    str_id hardware = strpool_find(store_strings(st), "hardware", 8);
    size_t nsite, nrow = store_nrow(st, TABLE_span);
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *site = store_span_site(st), *up;
    const void *parent = NULL;
    bool *run = mem_calloc(nsite + 1, sizeof(*run)), any = false;
    int rc = run ? 0 : OPM_ENOMEM;

    *out = NULL;
    for (size_t i = 0; i < nsite && rc == 0; i++) {
        run[i] = hardware && sites[i].layer == hardware && is_run(st, &sites[i]);
        any |= run[i];
    }
    if (rc == 0 && any && nrow) {
        rc = store_column(st, TABLE_span, span_col_parent, &parent);
        *out = rc == 0 && parent ? mem_calloc(nrow, sizeof(**out)) : NULL;
        rc = *out || (rc == 0 && !parent) ? 0 : OPM_ENOMEM;
    }
    up = parent;
    for (size_t row = 0; *out && row < nrow; row++)
        if (up[row] != OPM_NULL_ID && sites[site[row]].layer == hardware && run[site[up[row]]])
            (*out)[up[row]] = true;
    mem_free(run);
    return rc;
}

void hardware_release(struct hardware *h)
{
    mem_free(h->role);
    *h = (struct hardware){ 0 };
}
