/* advice.h -- the rules of advice.def as SQL. */
#ifndef SQL_ADVICE_H
#define SQL_ADVICE_H

/* The SELECT behind view advice, or advice_rule: free with sqlite3_free(). NULL when out of memory.
 */
char *advice_sql(void);
char *advice_rule_sql(void);

#endif
