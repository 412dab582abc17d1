/* plan.c -- see plan.h. */
#include "sql/plan.h"

#include "base/capped.h"

#include <string.h>

/* Rows of an analysis that has not been computed: planning must not compute it. */
#define ROWS_GUESS 1000

/* Columns are written as one character. */
#define COL_CHAR '0'

/* Is constraint i on a string column a comparison of bytes? */
static bool compares_bytes(const struct source *s, sqlite3_index_info *info, int i)
{
    const char *name = sqlite3_vtab_collation(info, i);

    /* SQLite 3.40 turns `x = 'a' COLLATE NOCASE OR x = 'b' COLLATE NOCASE` into an IN that has
     * forgotten the collation. */
    if (s->collates && sqlite3_vtab_in(info, i, -1))
        return false;
    return name && sqlite3_stricmp(name, "BINARY") == 0;
}

static enum plan_op op_of(int op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return PLAN_EQ;
    case SQLITE_INDEX_CONSTRAINT_IS:
        return PLAN_IS;
    case SQLITE_INDEX_CONSTRAINT_ISNULL:
        return PLAN_IS_NULL;
    case SQLITE_INDEX_CONSTRAINT_LT:
        return PLAN_LT;
    case SQLITE_INDEX_CONSTRAINT_LE:
        return PLAN_LE;
    case SQLITE_INDEX_CONSTRAINT_GT:
        return PLAN_GT;
    case SQLITE_INDEX_CONSTRAINT_GE:
        return PLAN_GE;
    default:
        return 0;
    }
}

/* Rows that an equality on an indexed column leaves of n. */
static double lookup_rows(const struct source *s, int col, double n)
{
    const struct index *ix = s->col[col].index;

    if (ix && ix->nrank > 1)
        return MAX(n / ix->nrank, 1.0);
    if (s->kind == SOURCE_TABLE && s->id == TABLE_span) {
        switch (col) {
        case span_col_parent:
            return MIN(n, 8.0);
        case span_col_cat:
        case span_col_layer:
        case span_col_phase:
            return n / 4;
        case span_col_track:
            return n / 8;
        default:
            break;
        }
    }
    return MAX(n / 64, MIN(n, 4.0));
}

static void take(struct plan *p, sqlite3_index_info *info, int i, enum plan_op op, int col)
{
    p->term[p->nterm++] = (struct plan_term){ op, col };
    info->aConstraintUsage[i].argvIndex = p->nterm;
}

/* Pick the constraints to use; returns the rows expected. */
static double plan_terms(struct plan *p, const struct source *s, sqlite3_index_info *info, double n)
{
    double rows = n, best_rows = 0;
    int best = -1;

    for (int i = 0; i < info->nConstraint && p->nterm < PLAN_TERMS_MAX - 1; i++) {
        int col = info->aConstraint[i].iColumn;
        enum plan_op op = op_of(info->aConstraint[i].op);

        if (!info->aConstraint[i].usable || !op || col < 0)
            continue;
        if (source_is_row(s, col) || col == s->sorted) {
            if (op == PLAN_IS_NULL)
                continue;
            take(p, info, i, op, col);
            if (op == PLAN_EQ || op == PLAN_IS)
                rows = MIN(rows, col == s->sorted ? 4 : 1);
            else
                rows = MAX(rows / 4, 1);
            if (op == PLAN_EQ && source_is_row(s, col))
                info->idxFlags |= SQLITE_INDEX_SCAN_UNIQUE;
        } else if (op == PLAN_EQ || op == PLAN_IS || op == PLAN_IS_NULL) {
            double left;

            if (!index_offered(s, col) ||
                (s->def->col[col].type == COL_STR && !compares_bytes(s, info, i)))
                continue;
            left = lookup_rows(s, col, n);
            if (best < 0 || left < best_rows) {
                best = i;
                best_rows = left;
            }
        }
    }
    if (best >= 0) {
        take(p, info, best, op_of(info->aConstraint[best].op), info->aConstraint[best].iColumn);
        rows = MIN(rows, best_rows);
    }
    return rows;
}

/* Can rows be had in the order asked for? Fills the order of the plan. */
static bool plan_order(struct plan *p, const struct source *s, const sqlite3_index_info *info)
{
    bool by_ts = false;

    for (int i = 0; i < info->nOrderBy; i++) {
        int col = info->aOrderBy[i].iColumn;
        int dir = info->aOrderBy[i].desc ? -1 : 1;

        if (col < 0)
            return false;
        if (source_is_row(s, col) || col == s->sorted) {
            if (p->rows && p->rows != dir)
                return false;
            p->rows = dir;
            if (source_is_row(s, col))
                return true; /* no two rows are equal: further columns change nothing */
            by_ts = true;
            continue;
        }
        /* Rows of equal ts are in no order of other columns. */
        if (by_ts || p->norder == INDEX_ORDER_MAX || !index_offered(s, col))
            return false;
        p->order[p->norder].col = col;
        p->order[p->norder++].desc = info->aOrderBy[i].desc;
    }
    return true;
}

static bool only_order_columns_used(const struct plan *p)
{
    uint64_t used = p->used;

    for (int i = 0; i < p->norder; i++)
        used &= ~((uint64_t)1 << p->order[i].col);
    return used == 0;
}

static char *plan_text(const struct plan *p)
{
    char text[2 * PLAN_TERMS_MAX + 2 * INDEX_ORDER_MAX + 8];
    struct capped to = capped_of(text, sizeof(text));

    for (int i = 0; i < p->nterm; i++) {
        capped_addc(&to, (char)p->term[i].op);
        capped_addc(&to, (char)(COL_CHAR + p->term[i].col));
    }
    capped_addc(&to, '/');
    for (int i = 0; i < p->norder; i++) {
        capped_addc(&to, p->order[i].desc ? '-' : '+');
        capped_addc(&to, (char)(COL_CHAR + p->order[i].col));
    }
    capped_addc(&to, '/');
    capped_addc(&to, p->rows > 0 ? '+' : p->rows < 0 ? '-' : '.');
    capped_addc(&to, p->unique ? 'u' : '.');
    return sqlite3_mprintf("%s%llx", capped_str(&to), (unsigned long long)p->used);
}

int plan_make(const struct source *s, sqlite3_index_info *info)
{
    struct plan p = { .used = info->colUsed };
    double n = s->ready ? (double)s->nrow : ROWS_GUESS;
    double rows = plan_terms(&p, s, info, n);

    static_assert(PLAN_TERMS_MAX >= 2, "plan_terms() keeps one place for a lookup");
    if (info->nOrderBy > 0) {
        struct plan ordered = p;

        if (plan_order(&ordered, s, info)) {
            p = ordered;
            info->orderByConsumed = 1;
            p.unique = sqlite3_vtab_distinct(info) >= 2 && p.norder > 0 && p.rows == 0 &&
                       only_order_columns_used(&p);
        }
    }
    info->estimatedRows = (sqlite3_int64)MAX(rows, 1.0);
    info->estimatedCost = rows + (p.nterm ? 2.0 : 1.0);
    info->idxStr = plan_text(&p);
    if (!info->idxStr)
        return SQLITE_NOMEM;
    info->needToFreeIdxStr = 1;
    return SQLITE_OK;
}

void plan_parse(struct plan *p, const char *text)
{
    *p = (struct plan){ 0 };
    for (; *text != '/'; text += 2)
        p->term[p->nterm++] = (struct plan_term){ (enum plan_op)text[0], text[1] - COL_CHAR };
    for (text++; *text != '/'; text += 2) {
        p->order[p->norder].col = text[1] - COL_CHAR;
        p->order[p->norder++].desc = text[0] == '-';
    }
    text++;
    p->rows = text[0] == '+' ? 1 : text[0] == '-' ? -1 : 0;
    p->unique = text[1] == 'u';
    for (text += 2; *text; text++)
        p->used = p->used << 4 | (uint64_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
}
