/* Rows of the constraint: the law of the number of ones for each of many multisets. */

#include "kernel.h"

/* Pr[Bin(trials, t) = k] from the mode outward, cut where it falls below 2^-120 of the mode's; returns the first k. */
static whole binomial(double t, whole trials, double *to, whole *size) {
    whole mode = lesser((whole)((double)(trials + 1) * t), trials), first = mode, last = mode;
    double odds = t / (1.0 - t), total = 1.0;
    to[mode] = 1.0;
    for (whole k = mode; k < trials && to[k] > 0x1p-120; k++) {
        to[k + 1] = to[k] * ((double)(trials - k) / (double)(k + 1) * odds);
        total += to[last = k + 1];
    }
    for (whole k = mode; k > 0 && to[k] > 0x1p-120; k--) {
        to[k - 1] = to[k] / ((double)(trials - k + 1) / (double)k * odds);
        total += to[first = k - 1];
    }
    for (whole k = first; k <= last; k++) to[k] /= total;
    *size = last - first + 1;
    return first;
}

LOOP void spread(double *restrict to, const double *restrict from, whole many, double weight) {
    for (whole j = 0; j < many; j++) to[j] += weight * from[j];
}

LOOP void convolution_step(double *restrict to, const double *restrict from, whole many, double t) {
    for (whole j = 0; j < many; j++) to[j + 1] = (1.0 - t) * from[j + 1] + t * from[j];
}

/*
 * The law of the number of ones, one multiset: `polar_form.mass`. work: 3 (K + 3) doubles; returns mass[0..K], within it.
 * Few voters one by one; many as the convolution of binomials.
 */
static const double *mass_function(whole K, whole kinds, const double *at, const whole *order, const whole *counts,
                                   double *work, int stepwise) {
    double *mass = work + 1, *next = work + K + 4, *factor = work + 2 * (K + 3);
    whole ones = 0;
    for (whole k = 0; k < kinds; k++)
        if (at[k] >= 1.0) ones += counts[k];
    memset(work, 0, (size_t)(2 * (K + 3)) * sizeof(double));
    mass[ones] = 1.0;
    whole first = ones, last = ones;
    for (whole i = 0; i < kinds; i++) {
        whole k = order[i];
        if (at[k] <= 0.0 || at[k] >= 1.0 || !counts[k]) continue;
        if (stepwise) {
            for (whole c = 0; c < counts[k]; c++) {
                convolution_step(next + first - 1, mass + first - 1, last - first + 2, at[k]);
                last++;
                double *swap = mass;
                mass = next, next = swap;
            }
        } else {
            whole size, from = binomial(at[k], counts[k], factor, &size), width = last - first + 1;
            memset(next, 0, (size_t)(K + 1) * sizeof(double));
            if (width < size)
                for (whole j = 0; j < width; j++) spread(next + first + from + j, factor + from, size, mass[first + j]);
            else
                for (whole j = 0; j < size; j++) spread(next + first + from + j, mass + first, width, factor[from + j]);
            first += from, last = first + width + size - 2;
            double *swap = mass;
            mass = next, next = swap;
        }
    }
    return mass;
}

/* alpha_l - alpha_{K-l} for l > K/2, for each of many multisets: `PrivacyConstraint._signed_mass`. 0, or why not. */
EXPORT int signed_mass(whole K, whole kinds, const double *at, const whole *counts, whole many, int stepwise, double *to) {
    double *work = malloc((size_t)(3 * (K + 3)) * sizeof(double));
    whole entries = (K + 1) / 2, order[MAX_VERTICES];
    if (!work) return OUT_OF_MEMORY;
    for (whole k = 0; k < kinds; k++) { /* by probability, as in polar_form.py */
        whole place = k;
        for (; place > 0 && at[order[place - 1]] > at[k]; place--) order[place] = order[place - 1];
        order[place] = k;
    }
    for (whole i = 0; i < many; i++) {
        const double *mass = mass_function(K, kinds, at, order, counts + i * kinds, work, stepwise);
        for (whole k = 0; k < entries; k++) to[i * entries + k] = mass[K / 2 + 1 + k] - mass[(K + 1) / 2 - 1 - k];
    }
    free(work);
    return DONE;
}
