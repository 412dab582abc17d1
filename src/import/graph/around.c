/* around.c -- see around.h. */
#include "import/graph/around.h"

#include "import/llm/mark.h"

uint32_t around_op(const struct store *st, const uint32_t *parent, uint32_t row)
{
    size_t nsite, nop = store_nrow(st, TABLE_op);
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *site = store_span_site(st);

    while (row != OPM_NULL_ID && sites[site[row]].op >= nop)
        row = parent ? parent[row] : OPM_NULL_ID;
    return row == OPM_NULL_ID ? OPM_NULL_ID : sites[site[row]].op;
}

int64_t around_tokens(const struct store *st, const uint32_t *parent, uint32_t row)
{
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *site = store_span_site(st);

    for (; row != OPM_NULL_ID; row = parent ? parent[row] : OPM_NULL_ID) {
        uint32_t name = sites[site[row]].name;
        struct llm_mark m;

        if (!name || !llm_mark_read(store_text(st, name), &m))
            continue;
        if (m.tokens_in >= 0)
            return m.tokens_in;
        if (m.batch >= 0 && m.prefills == 0) /* drafts: graphs are for so many requests */
            return m.batch;
    }
    return -1;
}
