/* off.cpp -- the same as C++. */
#include "off.c"
