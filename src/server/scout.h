/* scout.h -- a thread that looks into traces before anybody asks.
 *
 * A server for one trace has it in memory by the time the browser is there. In a folder, traces are
 * opened one after the other, to say in the list what they are, and closed again. */
#ifndef SERVER_SCOUT_H
#define SERVER_SCOUT_H

#include "server/catalog.h"

struct scout;

int scout_start(struct scout **out, struct catalog *c, opm_error *err);
void scout_wake(struct scout *s); /* there may be something new */
void scout_stop(struct scout *s); /* after catalog_end(); NULL is fine */

#endif
