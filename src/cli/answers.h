/* answers.h -- answers of a database of ranks (catalog/questions.h), printed. */
#ifndef CLI_ANSWERS_H
#define CLI_ANSWERS_H

#include "catalog/questions.h"
#include "cli/cli.h"

/* In the format asked for, for people at most `limit` rows (0: all). CLI_OK, or the exit code after
 * a message. */
int answer_print(struct cli *cli, const struct answer *a, int64_t limit);
/* An array of objects. */
void answer_json(struct json_writer *w, const struct answer *a);
/* Rows of SQL that a user wrote. */
int fleetrows_print(struct cli *cli, struct fleetrows *rows);

#endif
