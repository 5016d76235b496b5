// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "suites.h"

uint64_t seed_of(const char *name)
{
    const char *given = getenv("ALULA_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761U;
    printf("%s: ALULA_SEED=%llu\n", name, (unsigned long long)seed);
    return seed;
}

// SplitMix64 (public domain, S. Vigna).
uint64_t rand64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

double rand_unit(uint64_t *state)
{
    return (double)(rand64(state) >> 11) * 0x1p-53;
}

void assert_close_at(double a, double b, double tolerance, const char *file, int line)
{
    if (fabs(a - b) <= tolerance || (isnan(a) && isnan(b)))
        return;
    print_error("%.17g and %.17g differ by more than %.3g\n", a, b, tolerance);
    _fail(file, line);
}

int main(void)
{
    return window_suite() + trend_suite() + rate_suite() + set_suite() + change_suite();
}
