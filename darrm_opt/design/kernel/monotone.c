/* Monotone search: the worst multiset of a gamma that never decreases away from K/2. */

#include "kernel.h"

/* mean[j] += mass[j] * A[top - j + t], for j in [t, many) : A lies reversed, so that both are read in order. */
LOOP void add_product(double *restrict mean, const double *restrict mass, const double *restrict reversed, whole many) {
    for (whole j = 0; j < many; j++) mean[j] += mass[j] * reversed[j];
}

/* The largest phi = q own[j] + other[last - j]. */
LOOP double largest_sum(const double *restrict own, const double *restrict other, whole last, double q) {
    double most = -DBL_MAX;
    for (whole j = 0; j <= last; j++) most = largest(most, q * own[j] + other[last - j]);
    return most;
}

/*
 * `monotone.search_monotone` where a mean has few terms: the worst multiset for every i, over j and s1.
 * values: the largest phi for each i; found: where, j and s1 for each i. Returns 0, or why not.
 *
 * The neighbour's mean has j and k, s0 and s1 exchanged: of all means only those of s1 and s0 are ever held, and the clock
 * is looked at between two such pairs.
 */
EXPORT int search_monotone(whole K, whole r, const double *signed_values, double x, double y, double q, double Delta,
                           whole terms, double seconds, const volatile int *stop, double *values, whole *found) {
    whole others = K - r, wide = r + 1;
    double *A = malloc(((size_t)(2 * (K + 1)) + (size_t)(terms + 3) * (size_t)wide) * sizeof(double));
    if (!A) return OUT_OF_MEMORY;
    double *reversed = A + K + 1, *mass = reversed + K + 1, *mean = mass + (terms + 1) * wide, deadline = deadline_in(seconds);
    int late = 0;
    memset(mass, 0, (size_t)((terms + 1) * wide) * sizeof(double));
    mass[0] = 1.0;
    for (whole j = 0; j < r; j++)
        for (whole t = 0; t <= terms; t++) {
            double next = (1.0 - Delta) * mass[t * wide + j];
            if (t) next += Delta * mass[(t - 1) * wide + j];
            mass[t * wide + j + 1] = next;
        }
    memcpy(A, signed_values, (size_t)(K + 1) * sizeof(double));
    for (whole i = 0; i <= r && !late; i++) {
        whole n = K - i, free_voters = r - i;
        if (i) step(A, n + 1, x, y);
        for (whole j = 0; j <= n; j++) reversed[j] = A[n - j];
        values[i] = -DBL_MAX;
        for (whole low = 0; 2 * low <= others && !(late = is_over(deadline, stop)); low++) {
            whole both = low < others - low;
            for (whole k = 0; k <= both; k++) {
                whole s1 = k ? others - low : low;
                double *row = mean + k * wide;
                memset(row, 0, (size_t)(free_voters + 1) * sizeof(double));
                /* A[r - i - j + s1 + t] is reversed[others - s1 + j - t]; Bin(j) never exceeds j */
                for (whole t = 0; t <= lesser(terms, free_voters); t++)
                    add_product(row + t, mass + t * wide + t, reversed + others - s1, free_voters - t + 1);
            }
            for (whole k = 0; k <= both; k++) { /* of equal ones the least s1, then the least j */
                const double *own = mean + k * wide, *other = mean + (both - k) * wide;
                double most = largest_sum(own, other, free_voters, q);
                whole s1 = k ? others - low : low, j = 0;
                if (most < values[i] || (most == values[i] && s1 > found[2 * i + 1])) continue;
                while (j < free_voters && q * own[j] + other[free_voters - j] != most) j++;
                values[i] = most, found[2 * i] = j, found[2 * i + 1] = s1;
            }
        }
    }
    free(A);
    return late ? OUT_OF_TIME : DONE;
}
