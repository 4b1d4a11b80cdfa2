/* Bit recursion: one step of the total privacy of many releases that are single bits. */

#include "kernel.h"

#define TERMS 4      /* of a vertex: two answers, each on a chord between two cells */
#define AT_A_TIME 1024 /* points, so that those of all vertices stay in the cache */

/* best[j] = max(best[j], sum of a vertex's terms at j), added up in the order of the NumPy module. */
LOOP void vertex_into(double *restrict best, const double *restrict a, const double *restrict b, const double *restrict c,
                      const double *restrict d, const double *restrict weights, double constant, whole many) {
    double wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
    for (whole j = 0; j < many; j++)
        best[j] = largest(best[j], (((wa * a[j] + wb * b[j]) + wc * c[j]) + wd * d[j]) + constant);
}

/* The same of a vertex with an answer left of every cell: base + factor * last. */
LOOP void far_vertex_into(double *restrict best, const double *restrict a, const double *restrict b, const double *restrict c,
                          const double *restrict d, const double *restrict weights, double constant,
                          const double *restrict base, const double *restrict factor, double last, whole many) {
    double wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
    for (whole j = 0; j < many; j++) {
        double near = ((wa * a[j] + wb * b[j]) + wc * c[j]) + wd * d[j];
        best[j] = largest(best[j], ((near + factor[j] * last) + base[j]) + constant);
    }
}

LOOP void mirror_into(double *restrict to, const double *restrict values, const double *restrict scale,
                      const double *restrict offset, whole many) {
    for (whole k = 0; k < many; k++) to[-k] = offset[k] + scale[k] * values[k];
}

/*
 * `backward_step.backward_step`: V_t from V_{t-1}.
 * The fields of `Moves`: scale, offset [left]; constants, far [vertices]; cells, weights [vertices][TERMS]; base, factor
 * [..][points], of which vertex v takes row far[v], or none if that is -1. extended: work, left + points + right doubles.
 */
EXPORT void backward_step(whole points, whole left, whole right, const double *scale, const double *offset, whole vertices,
                          const double *constants, const whole *cells, const double *weights, const whole *far,
                          const double *base, const double *factor, const double *values, double *extended, double *to) {
    double *grid = extended + left, last = values[points - 1];
    whole known = lesser(left, points - 1);
    memcpy(grid, values, (size_t)points * sizeof(double));
    for (whole j = 0; j < right; j++) grid[points + j] = last;
    mirror_into(grid - 1, values + 1, scale, offset, known);
    for (whole k = known; k < left; k++) grid[-1 - k] = offset[k] + scale[k] * last;
    for (whole first = 0; first < points; first += AT_A_TIME) {
        whole many = lesser(AT_A_TIME, points - first);
        memset(to + first, 0, (size_t)many * sizeof(double));
        for (whole v = 0; v < vertices; v++) {
            const whole *at = cells + v * TERMS;
            const double *from = extended + first, *a = from + at[0], *b = from + at[1], *c = from + at[2], *d = from + at[3];
            if (far[v] < 0)
                vertex_into(to + first, a, b, c, d, weights + v * TERMS, constants[v], many);
            else
                far_vertex_into(to + first, a, b, c, d, weights + v * TERMS, constants[v], base + far[v] * points + first,
                                factor + far[v] * points + first, last, many);
        }
        for (whole j = first; j < first + many; j++) to[j] = smallest(to[j], 1.0);
    }
}
