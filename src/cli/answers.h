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

/* Is an argument no trace but a catalogue, in a file or on a server? */
bool answer_is_database(const char *where);
/* SQL over the catalogue `where`, as rows. */
int answer_query(struct cli *cli, const char *where, const char *sql);
/* All of one table of a job: argv is a catalogue and, where it has several jobs, the ID of one. */
int answer_table(struct cli *cli, enum question_id id, int argc, char **argv, int64_t limit);

#endif
