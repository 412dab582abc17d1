/* schema.c -- see schema.h. */
#include "sql/schema.h"

#include "sql/advice.h"

#include "analyze/analysis.h"

#define VIEW(name, doc, sql, make) static const struct column_def name##_columns[] = {
#define VCOL(view, name, type, doc) { #name, COL_##type, FROM_DERIVED, doc },
#define VEND(view) \
    }              \
    ;
#include "sql/views.def"
#undef VIEW
#undef VCOL
#undef VEND

#define VIEW(name, doc, sql, make)                                           \
    static const struct table_def name##_def = { #name, doc, name##_columns, \
                                                 (int)ARRAY_SIZE(name##_columns) };
#define VCOL(view, name, type, doc)
#define VEND(view)
#include "sql/views.def"
#undef VIEW
#undef VCOL
#undef VEND

const struct view views[] = {
#define VIEW(name, doc, sql, make) { &name##_def, sql, make },
#define VCOL(view, name, type, doc)
#define VEND(view)
#include "sql/views.def"
#undef VIEW
#undef VCOL
#undef VEND
    { NULL, NULL, NULL },
};

static const struct column_def schema_columns[] = {
    { "table_name", COL_STR, FROM_ADD, "table, analysis or view" },
    { "column_name", COL_STR, FROM_ADD, "column" },
    { "type", COL_STR, FROM_ADD, "INTEGER, REAL or TEXT" },
    { "doc", COL_STR, FROM_ADD, "what it holds" },
    { "kind", COL_STR, FROM_ADD, "table, analysis or view" },
    { "table_doc", COL_STR, FROM_ADD, "what a row of the table is" },
};
const struct table_def schema_def = { "schema", "a column that can be queried", schema_columns,
                                      (int)ARRAY_SIZE(schema_columns) };

const struct table_def *schema_get(int i, const char **out_kind)
{
    *out_kind = "table";
    if (i < TABLE_COUNT)
        return &store_table_defs[i];
    i -= TABLE_COUNT;
    if (i == 0)
        return &schema_def;
    i -= 1;
    *out_kind = "analysis";
    if (i < ANALYSIS_COUNT)
        return analyses[i].def;
    i -= ANALYSIS_COUNT;
    *out_kind = "view";
    return i < (int)ARRAY_SIZE(views) ? views[i].def : NULL;
}

static int add_row(struct table *t, struct store *st, const struct table_def *def,
                   const struct column_def *col, const char *kind)
{
    static const char *const types[] = {
        [COL_I64] = "INTEGER", [COL_ID] = "INTEGER", [COL_STR] = "TEXT", [COL_F64] = "REAL"
    };
    const char *text[] = { def->name, col->name, types[col->type], col->doc, kind, def->doc };
    struct cell cells[ARRAY_SIZE(text)];

    static_assert(ARRAY_SIZE(text) == ARRAY_SIZE(schema_columns), "one cell per column");
    for (size_t i = 0; i < ARRAY_SIZE(text); i++) {
        str_id id;
        int rc = store_cstr(st, text[i], &id);

        if (rc < 0)
            return rc;
        cells[i] = cell_str(id);
    }
    return table_add(t, cells);
}

int schema_fill(struct table *t, struct store *st)
{
    const struct table_def *def;
    const char *kind;
    int rc = 0;

    for (int i = 0;; i++) {
        def = schema_get(i, &kind);
        if (!def || rc != 0)
            break;
        for (int col = 0; col < def->ncol && rc == 0; col++)
            rc = add_row(t, st, def, &def->col[col], kind);
    }
    return rc;
}
