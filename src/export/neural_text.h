/* neural_text.h -- words and numbers as Intel's Neural Engine writes them, for its CSV, its trace
 * and the workbook. */
#ifndef EXPORT_NEURAL_TEXT_H
#define EXPORT_NEURAL_TEXT_H

#include "base/buf.h"
#include "export/op_tensors.h"

/* Header of the operator part, column A on. */
#define NEURAL_COLUMNS 16
extern const char *const neural_columns[NEURAL_COLUMNS];

enum neural_field { NEURAL_NAME, NEURAL_SHAPE, NEURAL_DTYPE };

/* One field of all inputs (weights among them) or outputs of op, appended to out: separated by sep,
 * dimensions by times. A tensor without that field still has its place. */
void neural_tensors(const struct op_tensors *t, size_t op, bool outputs, enum neural_field field,
                    const char *sep, char times, struct buf *out);
/* ms with three decimals, or as many up to six as it takes. */
void neural_ms(struct buf *out, double ns);
/* key:value;key:value of a JSON object of attributes, ordered by key; post_op comes as append_op.
 */
int neural_attributes(const struct store *st, size_t op, struct buf *out);

#endif
