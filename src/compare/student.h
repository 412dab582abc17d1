/* student.h -- Student's t distribution, for intervals and tests over few blocks. */
#ifndef COMPARE_STUDENT_H
#define COMPARE_STUDENT_H

/* The chance that t exceeds x, with that many degrees of freedom (at least 1). */
double student_above(double x, double freedom);
/* The x that t exceeds with chance p, 0 < p <= 0.5. */
double student_bound(double p, double freedom);
/* The chance that a standard normal variable exceeds x. */
double normal_above(double x);

#endif
