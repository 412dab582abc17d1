/* advice.c -- see advice.h. The evidence of a rule is both what fires it and what users read. */
#include "sql/advice.h"

#include "base/alloc.h"
#include <sqlite3.h>

static const struct rule {
    const char *id, *severity, *gain, *message, *action, *evidence;
} rules[] = {
#define RULE(id, severity, gain, message, action, evidence) \
    { #id, severity, gain, message, action, evidence },
#include "sql/advice.def"
#undef RULE
};

char *advice_sql(void)
{
    sqlite3_str *s = sqlite3_str_new(NULL);

    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        sqlite3_str_appendf(
            s,
            "%sSELECT %Q AS rule, %Q AS severity, %s AS gain, %s AS message, %Q AS action,"
            " %Q AS evidence FROM (%s)",
            i ? " UNION ALL " : "", rules[i].id, rules[i].severity, rules[i].gain, rules[i].message,
            rules[i].action, rules[i].evidence, rules[i].evidence);
    return sqlite3_str_finish(s);
}

char *advice_rule_sql(void)
{
    sqlite3_str *s = sqlite3_str_new(NULL);

    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        sqlite3_str_appendf(s, "%sSELECT %Q AS rule, %Q AS severity, %Q AS action, %Q AS evidence",
                            i ? " UNION ALL " : "", rules[i].id, rules[i].severity, rules[i].action,
                            rules[i].evidence);
    return sqlite3_str_finish(s);
}
