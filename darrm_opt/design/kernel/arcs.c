/* Search over arcs: the worst multiset of the vertices of a voter that states a privacy profile. */

#include "kernel.h"

#define ARCS (2 * MAX_VERTICES + 2) /* vertices and unions of neighbours are at most that many */
#define NODES_BETWEEN_CHECKS 64
#define MAX_JOINT 16 /* slopes of a joint search */
#define MAX_SEGMENTS 24 /* groups of voters whose arrays are kept for the next node */
#define MAX_HALVINGS 9 /* of ARCS arcs */

/* Some voters, who sit anywhere on some vertices. */
typedef struct {
    uint64_t alive;
    whole count;
    int fixed; /* these voters may not move: they sit at (0, 0) or at (1, 1) */
} Arc;

typedef struct {
    int arcs;
    Arc arc[ARCS];
} Node;

/* The fields stand in library.py, `ArcSearch`. */
typedef struct {
    whole K, vertices;
    const double *p, *reflected;       /* of each vertex, in the order of p + p': p and 1 - p' */
    const whole *previous, *following, *mirror; /* neighbours on the polygon, and (p', p); -1: none */
    whole zero, one;                   /* the vertices (0, 0) and (1, 1), or -1 */
    const double *signed_values;       /* g(0..K) */
    double q, fuzz, above, seconds;    /* fuzz: bound on the rounding of a mean of differences of g */
    whole most_nodes, most, enough; /* enough: cuts at which the search ends; 0: it does not */
    const volatile int *stop;
    /* found */
    double value, left_out;
    whole nodes, exhausted, kept;
    whole *counts;      /* [vertices] */
    double *cut_values; /* [most] */
    whole *cuts;        /* [most * vertices] */
} ArcSearch;

typedef struct {
    double low, high;
} Range;

/* Where the voters of an arc may sit: p, p', both, and p' - p; the middle between its ends, and how wide it is. */
typedef struct {
    Range p, p_prime, both, shift;
    double middle[2], width;
} Place;

/* Arrays of bounds, in this order: the least and the most of each of a, b, b - a and of second differences at p or p'. */
#define SIDES 8
#define ARRAYS (SIDES + 2) /* and the blossoms of g where all voters sit at the middle of their arcs, at p and at p' */

/* Some voters of the last node, and the arrays after the steps of all voters up to them, each of K + 1. */
typedef struct {
    uint64_t alive;
    whole count;
    double *arrays;
} Segment;

/* One entry of all of them, where few are left; least bounds are negated, so that all are maxima. */
typedef struct {
    double slopes[4], bends[4], middle[2];
} Entry;

typedef struct {
    ArcSearch *search;
    double deadline;
    double *blossom; /* K + 1 */
    Segment segments[MAX_SEGMENTS + 1]; /* the first one has no voters */
    int segments_kept;
    Entry *entries[MAX_HALVINGS];
    whole *multiset; /* vertices */
    int failed;
} Work;

/* Bounds on the slopes of phi for a voter, a = E[D], b = E'[D] and b - a; and a and b where all sit at the middle. */
typedef struct {
    Range a, b, difference;
    double middle[2];
} Slope;

/* What `slopes` finds of a node besides. */
typedef struct {
    double means[2]; /* E[g] and E'[g] at the middle */
    Range bend;      /* of the mean of second differences */
} Curvature;

/* Bounds of one array as a voter's chance lies in a range: n + 1 entries become n. */
static inline void range_step(double *restrict low, double *restrict high, whole n, Range at) {
    double t = at.low, s = 1.0 - t, t1 = at.high, s1 = 1.0 - t1;
    if (t == t1) {
        for (whole j = 0; j < n; j++) {
            low[j] = s * low[j] + t * low[j + 1];
            high[j] = s * high[j] + t * high[j + 1];
        }
        return;
    }
    for (whole j = 0; j < n; j++) {
        low[j] = smallest(s * low[j] + t * low[j + 1], s1 * low[j] + t1 * low[j + 1]);
        high[j] = largest(s * high[j] + t * high[j + 1], s1 * high[j] + t1 * high[j + 1]);
    }
}

/* The same of b - a, to which p' - p adds a second difference. */
static inline void shifted_step(double *restrict low, double *restrict high, const double *restrict least,
                                const double *restrict most, whole n, Range at, Range shift) {
    double t = at.low, s = 1.0 - t, t1 = at.high, s1 = 1.0 - t1;
    for (whole j = 0; j < n; j++) {
        double w = shift.low * least[j], x = shift.low * most[j], y = shift.high * least[j], z = shift.high * most[j];
        low[j] = smallest(s * low[j] + t * low[j + 1], s1 * low[j] + t1 * low[j + 1]) +
                 smallest(smallest(w, x), smallest(y, z));
        high[j] = largest(s * high[j] + t * high[j + 1], s1 * high[j] + t1 * high[j + 1]) +
                  largest(largest(w, x), largest(y, z));
    }
}

/* One voter on all arrays, `size` apart: n + 1 entries become n, and one more of the blossoms of g. */
LOOP void arrays_step(double *restrict v, whole size, whole n, const Place *at) {
    double *least = v + 6 * size, *most = v + 7 * size;
    range_step(v, v + size, n, at->p);
    range_step(v + 2 * size, v + 3 * size, n, at->p_prime);
    shifted_step(v + 4 * size, v + 5 * size, least, most, n, at->p, at->shift);
    range_step(least, most, n - 1, at->both);
    for (int side = 0; side < 2; side++) {
        double *restrict g = v + (SIDES + side) * size, t = at->middle[side], s = 1.0 - t;
        for (whole j = 0; j <= n; j++) g[j] = s * g[j] + t * g[j + 1];
    }
}

/* Four doubles at once. */
typedef double Quad __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t Lanes __attribute__((vector_size(32), aligned(8), may_alias));

#define LARGEST_OF(a, b) ((Quad)(((Lanes)(a) & ((a) > (b))) | ((Lanes)(b) & ~((a) > (b)))))

/* The same where few entries are left. */
LOOP void entries_step(const Entry *from, Entry *to, whole n, const Place *at) {
    const Range p = at->p, p_prime = at->p_prime, both = at->both;
    const Quad t = {p.low, p.low, p_prime.low, p_prime.low}, t1 = {p.high, p.high, p_prime.high, p_prime.high};
    const Quad u = {p.low, p.low, both.low, both.low}, u1 = {p.high, p.high, both.high, both.high};
    const Quad low = {at->shift.low, at->shift.low, 0.0, 0.0}, high = {at->shift.high, at->shift.high, 0.0, 0.0};
    const Quad s = 1.0 - t, s1 = 1.0 - t1, r = 1.0 - u, r1 = 1.0 - u1;
    for (whole j = 0; j <= n; j++) {
        const Entry *x = from + j, *y = x + 1;
        Entry *z = to + j;
        Quad a = *(const Quad *)x->slopes, a1 = *(const Quad *)y->slopes, d = *(const Quad *)x->bends, d1 = *(const Quad *)y->bends;
        Quad bend = {d[2], d[3], d[2], d[3]}, other = {-d[3], -d[2], -d[3], -d[2]};
        Quad a_low = s * a + t * a1, a_high = s1 * a + t1 * a1, d_low = r * d + u * d1, d_high = r1 * d + u1 * d1;
        Quad w = low * bend, v = high * bend, w1 = low * other, v1 = high * other;
        Quad shifted = LARGEST_OF(w, v), shifted1 = LARGEST_OF(w1, v1);
        *(Quad *)z->slopes = LARGEST_OF(a_low, a_high);
        *(Quad *)z->bends = LARGEST_OF(d_low, d_high) + LARGEST_OF(shifted, shifted1);
        for (int side = 0; side < 2; side++) {
            double m = at->middle[side];
            z->middle[side] = (1.0 - m) * x->middle[side] + m * y->middle[side];
        }
    }
}

/* Of second differences alone. */
static void bends_step(const Entry *from, Entry *to, whole n, const Place *at) {
    double t = at->both.low, s = 1.0 - t, t1 = at->both.high, s1 = 1.0 - t1;
    for (whole j = 0; j < n; j++)
        for (int k = 2; k < 4; k++)
            to[j].bends[k] = largest(s * from[j].bends[k] + t * from[j + 1].bends[k], s1 * from[j].bends[k] + t1 * from[j + 1].bends[k]);
}

static void widen(Range *range, double value) {
    range->low = smallest(range->low, value);
    range->high = largest(range->high, value);
}

static Place place_of(const ArcSearch *search, uint64_t alive) {
    Range none = {2.0, -2.0};
    Place place = {none, none, none, none, {0.0, 0.0}, 0.0};
    for (; alive; alive &= alive - 1) {
        int v = __builtin_ctzll(alive);
        double p_prime = 1.0 - search->reflected[v];
        widen(&place.p, search->p[v]);
        widen(&place.p_prime, p_prime);
        widen(&place.shift, p_prime - search->p[v]);
    }
    place.both = place.p;
    widen(&place.both, place.p_prime.low);
    widen(&place.both, place.p_prime.high);
    return place;
}

/* The same, and the middle between the first and the last vertex. */
static Place place_and_middle(const ArcSearch *search, uint64_t alive) {
    Place place = place_of(search, alive);
    int first = __builtin_ctzll(alive), last = 63 - __builtin_clzll(alive);
    place.middle[0] = (search->p[first] + search->p[last]) / 2;
    place.middle[1] = 1.0 - (search->reflected[first] + search->reflected[last]) / 2;
    place.width = place.both.high - place.both.low;
    return place;
}

static int single(uint64_t alive) { return !(alive & (alive - 1)); }

/* Widen a range by the means of second differences at some entries. */
static void widen_bend(Range *bend, const Entry *entries, whole count) {
    for (whole j = 0; j < count; j++) {
        widen(bend, -entries[j].bends[2]);
        widen(bend, entries[j].bends[3]);
    }
}

/* What the searches for the slopes of a node have in common. */
typedef struct {
    Work *work;
    const Node *node;
    const Place *place;
    int order[ARCS];
    Slope *slope;
    Curvature *curvature;
} Task;

/* From entries without one voter of each arc, the slopes of the arcs between `first` and `last`: half of them step first. */
static void leave_one_out(const Task *task, int level, const Entry *entries, whole count, int first, int last) {
    if (last - first == 1) {
        int i = task->order[first];
        const double *t = task->place[i].middle, *s = entries->slopes, *d = entries->bends;
        task->slope[i] = (Slope){{-s[0], s[1]}, {-s[2], s[3]}, {-d[0], d[1]}, {0.0, 0.0}};
        for (int side = 0; side < 2; side++) {
            task->slope[i].middle[side] = entries[1].middle[side] - entries[0].middle[side];
            task->curvature->means[side] = (1.0 - t[side]) * entries[0].middle[side] + t[side] * entries[1].middle[side];
        }
        return;
    }
    Entry *own = task->work->entries[level];
    int half = (first + last + 1) / 2;
    for (int k = 0; k < 2; k++) {
        whole left = count;
        for (int at = k ? first : half; at < (k ? half : last); at++, left--)
            entries_step(left == count ? entries : own, own, left - 1, task->place + task->order[at]);
        leave_one_out(task, level + 1, own, left, k ? half : first, k ? last : half);
    }
}

/* Whether a second difference for two voters of the arc matters: they may move. */
static int is_bent(const Arc *arc) { return !single(arc->alive) && arc->count > 1; }

/* The same of second differences for two voters of one arc, of which two are left in those that are bent. */
static void leave_two_out(const Task *task, int level, const Entry *entries, whole count, int first, int last) {
    int any = 0;
    for (int at = first; at < last; at++) any |= is_bent(task->node->arc + task->order[at]);
    if (!any) return;
    if (last - first == 1) {
        widen_bend(&task->curvature->bend, entries, count);
        return;
    }
    Entry *own = task->work->entries[level];
    int half = (first + last + 1) / 2;
    for (int k = 0; k < 2; k++) {
        whole left = count;
        for (int at = k ? first : half; at < (k ? half : last); at++) {
            int i = task->order[at];
            for (int voter = is_bent(task->node->arc + i); voter >= 0; voter--, left--)
                bends_step(left == count ? entries : own, own, left - 1, task->place + i);
        }
        leave_two_out(task, level + 1, own, left, k ? half : first, k ? last : half);
    }
}

/* How many segments of the last node are the first steps of this one, too; `need` becomes what is left to do. */
static int segments_shared(const Work *work, const Node *node, whole *need) {
    int kept = 0;
    for (; kept < work->segments_kept; kept++) {
        const Segment *segment = work->segments + kept + 1;
        int at = -1;
        for (int i = 0; i < node->arcs; i++)
            if (node->arc[i].alive == segment->alive && need[i] >= segment->count) at = i;
        if (at < 0) break;
        need[at] -= segment->count;
    }
    return kept;
}

/*
 * For each arc, bounds on the means of D over the votes of all voters but one of that arc; and what `Curvature` has. What
 * the last node has in common with this one is not done again; of the other arcs the narrow ones come first: what they
 * smooth is moved less by the wide ones.
 */
static void slopes(Work *work, const Node *node, const Place *place, Slope *slope, Curvature *curvature) {
    whole left = work->search->K, size = left + 1, need[ARCS];
    Task task = {.work = work, .node = node, .place = place, .slope = slope, .curvature = curvature};
    for (int i = 0; i < node->arcs; i++) {
        need[i] = node->arc[i].count - 1 - is_bent(node->arc + i);
        int at = i;
        for (; at && place[task.order[at - 1]].width > place[i].width; at--) task.order[at] = task.order[at - 1];
        task.order[at] = i;
    }
    int kept = segments_shared(work, node, need);
    for (int k = 1; k <= kept; k++) left -= work->segments[k].count;
    for (int k = 0; k < node->arcs; k++) {
        int i = task.order[k];
        if (!need[i]) continue;
        const double *before = work->segments[kept].arrays;
        kept = (int)lesser(kept + 1, MAX_SEGMENTS);
        Segment *segment = work->segments + kept;
        segment->alive = node->arc[i].alive, segment->count = need[i];
        if (before != segment->arrays)
            for (int array = 0; array < ARRAYS; array++)
                memcpy(segment->arrays + array * size, before + array * size, (size_t)(left + (array >= SIDES)) * sizeof(double));
        for (; need[i]; need[i]--) arrays_step(segment->arrays, size, --left, place + i);
    }
    work->segments_kept = (int)lesser(kept, MAX_SEGMENTS - 1); /* the last one may have the steps of several arcs */

    const double *v = work->segments[kept].arrays;
    Entry *entries = work->entries[0];
    for (whole j = 0; j <= left; j++, v++) {
        Entry *entry = entries + j;
        for (int k = 0; k < 4; k++) {
            entry->slopes[k] = k & 1 ? v[k * size] : -v[k * size];
            entry->bends[k] = k & 1 ? v[(4 + k) * size] : -v[(4 + k) * size];
        }
        for (int side = 0; side < 2; side++) entry->middle[side] = v[(SIDES + side) * size];
    }
    curvature->bend = (Range){0.0, 0.0};
    leave_two_out(&task, 1, entries, left - 1, 0, node->arcs);
    for (int i = 0; i < node->arcs; i++)
        if (is_bent(node->arc + i)) entries_step(entries, entries, --left, place + i);
    widen_bend(&curvature->bend, entries, left - 1); /* for two voters of different arcs */
    leave_one_out(&task, 1, entries, left, 0, node->arcs);
}

static double mean(Work *work, const double *chances, const whole *multiset) {
    whole n = work->search->K;
    double *a = work->blossom;
    memcpy(a, work->search->signed_values, (size_t)(n + 1) * sizeof(double));
    for (whole v = 0; v < work->search->vertices; v++)
        for (whole voter = 0; voter < multiset[v]; voter++) step(a, n--, chances[v], 1.0 - chances[v]);
    return a[0];
}

/* Keep the worst multiset, and those above the level: the `most` largest, in a list of which the first is the least. */
static double offer(Work *work, const whole *multiset) {
    ArcSearch *search = work->search;
    size_t size = (size_t)search->vertices * sizeof(whole);
    double value = search->q * mean(work, search->p, multiset) + mean(work, search->reflected, multiset);
    if (value > search->value) {
        search->value = value;
        memcpy(search->counts, multiset, size);
    }
    if (!search->most || value <= search->above) return value;
    whole at = search->kept;
    for (whole k = 0; k < search->kept; k++)
        if (search->cut_values[k] == value && !memcmp(search->cuts + k * search->vertices, multiset, size)) return value;
    if (at == search->most) {
        at = 0;
        for (whole k = 1; k < search->kept; k++)
            if (search->cut_values[k] < search->cut_values[at]) at = k;
        if (value <= search->cut_values[at]) return value;
    } else {
        search->kept++;
    }
    search->cut_values[at] = value;
    memcpy(search->cuts + at * search->vertices, multiset, size);
    return value;
}

static double level(const ArcSearch *search) {
    return search->most ? search->above : largest(search->above, search->value);
}

/* The most of factor * x over a range. */
static double most_of(double factor, Range x) { return factor * (factor > 0 ? x.high : x.low); }

/* The most that phi can gain by a move of (dp, dp'): q a dp - b dp', where a, b and b - a are bounded, each two of them. */
static double most_gain(double q, double dp, double dp_prime, Slope slope) {
    double apart = most_of(q * dp, slope.a) + most_of(-dp_prime, slope.b);
    double by_a = most_of(q * dp - dp_prime, slope.a) + most_of(-dp_prime, slope.difference);
    double by_b = most_of(q * dp - dp_prime, slope.b) + most_of(-q * dp, slope.difference);
    return smallest(apart, smallest(by_a, by_b));
}

static double gain_from(const ArcSearch *search, const double *from, whole v, Slope slope) {
    return most_gain(search->q, search->p[v] - from[0], 1.0 - search->reflected[v] - from[1], slope);
}

static void within(Range *range, double low, double high) {
    range->low = largest(range->low, low);
    range->high = smallest(range->high, high);
}

/* Whether every voter at v gains by going to w, whatever the others do within the node. */
static int loses(const ArcSearch *search, whole v, whole w, Slope slope) {
    if (w < 0 || w == v) return 0;
    double dp = search->p[w] - search->p[v], dp_prime = search->reflected[v] - search->reflected[w];
    /* the least gain of the way there is minus the most of the way back */
    return -most_gain(search->q, -dp, -dp_prime, slope) > 2 * search->fuzz * (fabs(dp) + fabs(dp_prime)) + 1e-290;
}

/* Drop the vertices at which no voter of a worst multiset sits, for any q asked; returns 0 where an arc has none left. */
static int reduce(ArcSearch *search, Node *node, const Slope *slope, const double *q, uint64_t asked) {
    for (int i = 0; i < node->arcs; i++) {
        Arc *arc = node->arc + i;
        for (uint64_t rest = arc->alive; rest; rest &= rest - 1) {
            whole v = __builtin_ctzll(rest);
            int lost = 1;
            for (uint64_t each = asked; each && lost; each &= each - 1) {
                search->q = q[__builtin_ctzll(each)];
                if (arc->fixed)
                    lost = loses(search, v, v == search->zero ? search->one : search->zero, slope[i]);
                else
                    lost = loses(search, v, search->previous[v], slope[i]) ||
                           loses(search, v, search->following[v], slope[i]) ||
                           loses(search, v, search->mirror[v], slope[i]);
            }
            if (lost) arc->alive &= ~((uint64_t)1 << v);
        }
        if (!arc->alive) return 0;
    }
    return 1;
}

static void leave_out(ArcSearch *search, double bound) { search->left_out = largest(search->left_out, bound); }

/* Add some voters of an arc to a node. */
static void add(Node *node, uint64_t alive, whole count) {
    if (!count) return;
    for (int i = 0; i < node->arcs; i++)
        if (node->arc[i].alive == alive && !node->arc[i].fixed) {
            node->arc[i].count += count;
            return;
        }
    node->arc[node->arcs++] = (Arc){alive, count, 0};
}

/* How far the voters of all arcs together are from the middles at most, in p and p'. */
static void ways_of(const ArcSearch *search, const Node *node, const Place *place, double *way) {
    way[0] = way[1] = 0.0;
    for (int i = 0; i < node->arcs; i++) {
        double farthest[2] = {0.0, 0.0};
        for (uint64_t rest = node->arc[i].alive; rest; rest &= rest - 1) {
            int v = __builtin_ctzll(rest);
            farthest[0] = largest(farthest[0], fabs(search->p[v] - place[i].middle[0]));
            farthest[1] = largest(farthest[1], fabs(1.0 - search->reflected[v] - place[i].middle[1]));
        }
        for (int side = 0; side < 2; side++) way[side] += (double)node->arc[i].count * farthest[side];
    }
}

/*
 * Bounds on the mean slopes on the way from the middles to any multiset of the node: half as far from those at the middle as
 * the slopes at its end may be.
 */
static void average_slopes(const ArcSearch *search, const Node *node, const Curvature *curvature, const double *way, Slope *slope) {
    double bend = largest(-curvature->bend.low, curvature->bend.high) + search->fuzz;
    double change[2] = {bend * way[0] / 2, bend * way[1] / 2};
    for (int i = 0; i < node->arcs; i++) {
        double a = slope[i].middle[0], b = slope[i].middle[1], both = change[0] + change[1];
        within(&slope[i].a, a - change[0], a + change[0]);
        within(&slope[i].b, b - change[1], b + change[1]);
        within(&slope[i].difference, b - a - both, b - a + both);
    }
}

/* The vertices of an arc before its middle: it is cut where its halves are least wide. */
static uint64_t first_half(const ArcSearch *search, uint64_t alive) {
    uint64_t left = 0, rest = alive;
    double first = 0.0, last = 0.0;
    for (uint64_t each = alive; each; each &= each - 1) {
        int v = __builtin_ctzll(each);
        double place = search->p[v] - search->reflected[v];
        if (each == alive) first = place;
        last = place;
    }
    for (; !single(rest); rest &= rest - 1) {
        int v = __builtin_ctzll(rest);
        if (left && search->p[v] - search->reflected[v] > (first + last) / 2) break;
        left |= rest & -rest;
    }
    return left;
}

/* One multiset of the node, its only one where no arc has a choice left; whether one has. */
static int is_open(const ArcSearch *search, const Node *node, whole *multiset) {
    int open = 0;
    memset(multiset, 0, (size_t)search->vertices * sizeof(whole));
    for (int i = 0; i < node->arcs; i++) {
        open |= !single(node->arc[i].alive);
        multiset[__builtin_ctzll(node->arc[i].alive)] += node->arc[i].count;
    }
    return open;
}

/* The other arcs of a node, and the voters of one of them in two parts. */
static Node child_of(const Node *node, int divided, uint64_t part, whole there, uint64_t alive) {
    Node child = {0, {{0, 0, 0}}};
    for (int i = 0; i < node->arcs; i++) {
        if (i == divided) continue;
        if (node->arc[i].fixed)
            child.arc[child.arcs++] = node->arc[i];
        else
            add(&child, node->arc[i].alive, node->arc[i].count);
    }
    add(&child, part, there);
    add(&child, alive, node->arc[divided].count - there);
    return child;
}

/* Search a node whose multisets have phi <= bound. */
static void search_node(Work *work, const Node *given, double bound) {
    ArcSearch *search = work->search;
    if (bound <= level(search) || search->exhausted || work->failed || given->arcs + 2 > ARCS) {
        leave_out(search, bound);
        return;
    }
    if (search->nodes % NODES_BETWEEN_CHECKS == 0 && is_over(work->deadline, search->stop)) work->failed = OUT_OF_TIME;
    if (++search->nodes > search->most_nodes || (search->enough && search->kept >= search->enough)) search->exhausted = 1;
    Node node = *given;
    Place place[ARCS];
    Slope slope[ARCS];
    Curvature curvature;
    double q = search->q;
    for (int i = 0; i < node.arcs; i++) place[i] = place_and_middle(search, node.arc[i].alive);
    slopes(work, &node, place, slope, &curvature);
    if (!reduce(search, &node, slope, &q, 1)) return;
    if (!is_open(search, &node, work->multiset)) {
        offer(work, work->multiset);
        return;
    }

    double way[2], value = q * curvature.means[0] - curvature.means[1];
    ways_of(search, &node, place, way);
    average_slopes(search, &node, &curvature, way, slope);
    /* what all multisets of the node may have beyond phi there: the sum over the voters of slopes on the way, averaged */
    int widest = -1;
    double term[ARCS], sum = 0.0;
    for (int i = 0; i < node.arcs; i++) {
        double gain = -DBL_MAX;
        for (uint64_t rest = node.arc[i].alive; rest; rest &= rest - 1)
            gain = largest(gain, gain_from(search, place[i].middle, __builtin_ctzll(rest), slope[i]));
        term[i] = (double)node.arc[i].count * gain;
        sum += fabs(term[i]);
        value += term[i];
        if (!single(node.arc[i].alive) && (widest < 0 || term[i] * place[i].width > term[widest] * place[widest].width)) widest = i;
    }
    double rounding = 2 * search->fuzz * (way[0] + way[1]) + 0x1p-46 * sum;
    bound = smallest(bound, value + rounding);
    if (bound <= level(search)) {
        leave_out(search, bound);
        return;
    }

    uint64_t alive = node.arc[widest].alive, left = first_half(search, alive);
    uint64_t halves[2] = {left, alive & ~left};
    double gain[2];
    for (int half = 0; half < 2; half++) {
        gain[half] = -DBL_MAX;
        for (uint64_t each = halves[half]; each; each &= each - 1)
            gain[half] = largest(gain[half], gain_from(search, place[widest].middle, __builtin_ctzll(each), slope[widest]));
    }
    /* either at least h of them are in the half that promises more, or at least count - h + 1 in the other */
    whole count = node.arc[widest].count, h = (count + 1) / 2;
    int better = gain[1] > gain[0];
    double whole_gain = largest(gain[0], gain[1]);
    for (int k = 0; k < 2; k++) {
        int half = k ? !better : better;
        whole there = k ? count - h + 1 : h;
        double terms = (double)there * gain[half] + (double)(count - there) * whole_gain;
        Node child = child_of(&node, widest, halves[half], there, alive);
        search_node(work, &child, smallest(bound, value - term[widest] + terms + rounding + 0x1p-46 * fabs(terms)));
    }
}

/* Memory of a search, with the arrays before the step of any voter; NULL where there is none. */
static void *prepare(Work *work) {
    const ArcSearch *search = work->search;
    size_t size = (size_t)(search->K + 1), most = (size_t)lesser(search->K, 2 * ARCS) + 1;
    char *memory = malloc(MAX_HALVINGS * most * sizeof(Entry) + ((MAX_SEGMENTS + 1) * ARRAYS + 1) * size * sizeof(double) +
                          (size_t)search->vertices * sizeof(whole));
    if (!memory) return NULL;
    for (int k = 0; k < MAX_HALVINGS; k++) work->entries[k] = (Entry *)memory + (size_t)k * most;
    work->blossom = (double *)((Entry *)memory + MAX_HALVINGS * most);
    for (int k = 0; k <= MAX_SEGMENTS; k++) work->segments[k].arrays = work->blossom + (1 + (size_t)(k * ARRAYS)) * size;
    work->multiset = (whole *)(work->blossom + (1 + (size_t)((MAX_SEGMENTS + 1) * ARRAYS)) * size);
    const double *g = search->signed_values;
    for (whole l = 0; l <= search->K; l++) {
        double *v = work->segments[0].arrays + l;
        double slope = l < search->K ? g[l + 1] - g[l] : 0.0, bend = l + 1 < search->K ? g[l + 2] - g[l + 1] - slope : 0.0;
        for (int k = 0; k < SIDES; k++) v[k * (whole)size] = k < 4 ? slope : k < 6 ? 0.0 : bend;
        for (int k = SIDES; k < ARRAYS; k++) v[k * (whole)size] = g[l];
    }
    return memory;
}

static uint64_t all_vertices(const ArcSearch *search) {
    return search->vertices == MAX_VERTICES ? ~(uint64_t)0 : ((uint64_t)1 << search->vertices) - 1;
}

/* Some voters anywhere, so many of the others at (1, 1), and the rest at (0, 0). */
static Node root_of(const ArcSearch *search, whole movable, whole ones) {
    whole others = search->K - movable;
    Node root = {0, {{0, 0, 0}}};
    if (movable) root.arc[root.arcs++] = (Arc){all_vertices(search), movable, 0};
    if (ones) root.arc[root.arcs++] = (Arc){(uint64_t)1 << search->one, ones, 1};
    if (others - ones) root.arc[root.arcs++] = (Arc){(uint64_t)1 << search->zero, others - ones, 1};
    return root;
}

/*
 * Sweep over the numbers of voters by (0, 0), by (1, 1), and in each of one or two pairs of inner vertices, (p, p') and
 * (p', p): `arcs.py`, "Sweep". What depends on the voters of the pairs is an array over the number of voters at (1, 1).
 */

#define ORDERS 7 /* of a series about the middle of the pairs */
#define ANGLES 1024
#define SMALL_REMAINDER 1e-5
#define LARGE_REMAINDER 1e-2
#define MAX_SWEPT 200000000 /* numbers of voters in all */

typedef struct {
    uint64_t vertex[2]; /* that with the smaller p, and its mirror image */
    double p[2], middle, half;
} Pair;

typedef struct {
    ArcSearch *search;
    Work *work;
    whole movable, size; /* size: K + 1 */
    int pairs;
    Pair pair[2];
    uint64_t ends[2]; /* vertices by (0, 0), and by (1, 1) */
    double away[2];   /* how far they are from there */
    double largest, rounding;
    double *peak;               /* [K + 1]: at most the chance of any one number of votes, of so many inner voters */
    double *start[5], *now[5];  /* E[g]: inner voters at the corners of the pairs, and at the middles, without and with the first pair */
    double *kept;               /* the last of these, [ORDERS + 1][K + 1][K + 1] */
    double *top;                /* [K + 1][K + 1]: the most of phi at the corners */
    whole *top_at;              /* where, `packed` */
    double *bound, *sure[2], *rest, *move, *bend, *power;
} Sweep;

/* Find the pairs and the ends; whether there are one or two pairs. */
static int find_pairs(Sweep *sweep, ArcSearch *search, whole movable) {
    *sweep = (Sweep){.search = search, .movable = movable, .size = search->K + 1};
    if (search->zero < 0 || search->one < 0) return 0;
    for (whole v = 0; v < search->vertices; v++) {
        whole w = search->mirror[v];
        double p = search->p[v], reflected = search->reflected[v];
        if (w < 0) return 0;
        int by_one = p == 1.0 || reflected == 0.0;
        if (by_one || p == 0.0 || reflected == 1.0) {
            double away = by_one ? largest(1.0 - p, reflected) : largest(p, 1.0 - reflected);
            sweep->ends[by_one] |= (uint64_t)1 << v;
            sweep->away[by_one] = largest(sweep->away[by_one], away);
        } else if (p < search->p[w]) {
            if (sweep->pairs == 2) return 0;
            double half = (search->p[w] - p) / 2;
            sweep->pair[sweep->pairs++] =
                (Pair){{(uint64_t)1 << v, (uint64_t)1 << w}, {p, search->p[w]}, p + half, half * (1 + 0x1p-40)};
        }
    }
    double K = (double)search->K;
    return sweep->pairs > 0 && (sweep->pairs == 1 ? K * K : K * K * K / 6) < MAX_SWEPT;
}

/*
 * At most the chance of any one number of votes, the mean over the angles of |characteristic function|, which falls from 0
 * to pi. 1 - cos x is at least the start of its series. An odd voter is left out.
 */
static void find_peaks(Sweep *sweep) {
    double least = 0.25, factor[ANGLES], power[ANGLES];
    for (int c = 0; c < sweep->pairs; c++)
        for (int side = 0; side < 2; side++)
            least = smallest(least, sweep->pair[c].p[side] * (1.0 - sweep->pair[c].p[side]) * (1 - 0x1p-40));
    for (int k = 0; k < ANGLES; k++) {
        double angle = 3.14159265358979 * k / ANGLES, x = angle * angle;
        double versine = x / 2 * (1 - x / 12 * (1 - x / 30 * (1 - x / 56)));
        factor[k] = 1.0 - 2.0 * least * largest(0.0, versine - 0x1p-40), power[k] = 1.0;
    }
    for (whole n = 0; n < sweep->size; n += 2) {
        double sum = 0.0;
        for (int k = 0; k < ANGLES; k++) sum += power[k], power[k] *= factor[k];
        sweep->peak[n] = smallest(1.0, sum / ANGLES * (1 + 0x1p-30));
        if (n + 1 < sweep->size) sweep->peak[n + 1] = sweep->peak[n];
    }
}

/* At most |E[difference of g of this order]| with so many inner voters anywhere: they are shared among the differences. */
static double most_difference(const Sweep *sweep, int order, whole voters) {
    double most = sweep->largest;
    for (int k = 0; k < order; k++) {
        whole part = voters > 0 ? voters / order + (k < voters % order) : 0;
        most *= smallest(2.0, 2.0 * sweep->peak[part]);
    }
    return most;
}

/*
 * phi with so many voters at (1, 1) and so many at (0, 0), where E[g] and E'[g] are x and y: and what the latter gain, to
 * first order, when `moved` of each go to a vertex nearby.
 */
static inline double with_ends(const Sweep *sweep, const double *x, const double *y, whole ones, whole zeros, whole budget) {
    double q = sweep->search->q, gain = q * x[ones] - y[ones];
    if (zeros) {
        double a = q * (x[ones + 1] - x[ones]), b = y[ones + 1] - y[ones];
        gain += (double)lesser(zeros, budget) * sweep->away[0] * largest(0.0, largest(a, -b));
    }
    if (ones) {
        double a = q * (x[ones] - x[ones - 1]), b = y[ones] - y[ones - 1];
        gain += (double)lesser(ones, budget) * sweep->away[1] * largest(0.0, largest(-a, b));
    }
    return gain;
}

/* The same for all numbers of voters at the ends, n in all, and the best where it is no less than before. */
LOOP void best_with_ends(const double *restrict x, const double *restrict y, double *restrict best, whole n, double q, double budget,
                         double at_zero, double at_one) {
    for (whole l = 1; l < n; l++) {
        double zeros = smallest((double)(n - l), budget) * at_zero, ones = smallest((double)l, budget) * at_one;
        double a = q * (x[l + 1] - x[l]), b = y[l + 1] - y[l], a1 = q * (x[l] - x[l - 1]), b1 = y[l] - y[l - 1];
        double gain = zeros * largest(0.0, largest(a, -b)) + ones * largest(0.0, largest(-a1, b1));
        best[l] = largest(best[l], q * x[l] - y[l] + gain);
    }
}

/* Where inner voters are at the corners: the most of q E[g] - E'[g] over the four corners. */
LOOP void best_corner(const double *restrict a, const double *restrict b, const double *restrict c, const double *restrict d,
                      double *restrict best, whole n, double q) {
    for (whole l = 0; l < n; l++) {
        double one = largest(q * a[l] - d[l], q * d[l] - a[l]), other = largest(q * b[l] - c[l], q * c[l] - b[l]);
        best[l] = largest(one, other);
    }
}

static double *kept_row(const Sweep *sweep, whole first, whole second) {
    return sweep->kept + (second % (ORDERS + 1) * sweep->size + first) * sweep->size;
}

/* One more voter of a pair in the first arrays: where bit `second` of their number says, or at the middle. */
static void pair_step(const Pair *pair, double *const *arrays, int count, int second, whole n) {
    for (int k = 0; k < count; k++) {
        double t = k == 4 ? pair->middle : pair->p[second ? k >> 1 : k & 1];
        step(arrays[k], n, t, 1.0 - t);
    }
}

/* Start the arrays of so many voters of the second pair, and none of the first. */
static void start_column(Sweep *sweep, int count, whole second) {
    whole n = sweep->search->K - second + 1;
    for (int k = 0; k < count && !second; k++)
        memcpy(sweep->start[k], sweep->search->signed_values, (size_t)n * sizeof(double));
    if (second) pair_step(sweep->pair + 1, sweep->start, count, 1, n);
    for (int k = 0; k < count; k++) memcpy(sweep->now[k], sweep->start[k], (size_t)n * sizeof(double));
}

/* The vertex by an end where a voter with these slopes gains most. */
static whole best_by_end(const Sweep *sweep, int end, double a, double b) {
    const ArcSearch *search = sweep->search;
    whole from = end ? search->one : search->zero, best = from;
    double most = 0.0;
    for (uint64_t rest = sweep->ends[end]; rest; rest &= rest - 1) {
        whole v = __builtin_ctzll(rest);
        double gain = search->q * a * (search->p[v] - search->p[from]) + b * (search->reflected[v] - search->reflected[from]);
        if (gain > most) most = gain, best = v;
    }
    return best;
}

/* One number of voters at the ends: a corner, bit c of which says whether pair c has the larger p, and where the ends gain. */
static whole packed(const Sweep *sweep, whole ones, whole n, int corner) {
    const double *x = sweep->now[corner], *y = sweep->now[3 - corner];
    whole by_zero = sweep->search->zero, by_one = sweep->search->one;
    if (ones < n - 1) by_zero = best_by_end(sweep, 0, x[ones + 1] - x[ones], y[ones + 1] - y[ones]);
    if (ones) by_one = best_by_end(sweep, 1, x[ones] - x[ones - 1], y[ones] - y[ones - 1]);
    return ((ones * MAX_VERTICES + by_zero) * MAX_VERTICES + by_one) * 4 + corner;
}

static void unpack(const Sweep *sweep, whole first, whole second, whole packed, whole *multiset) {
    const ArcSearch *search = sweep->search;
    whole corner = packed % 4, by_one = packed / 4 % MAX_VERTICES, by_zero = packed / 4 / MAX_VERTICES % MAX_VERTICES;
    whole ones = packed / 4 / MAX_VERTICES / MAX_VERTICES, zeros = search->K - first - second - ones;
    whole budget = sweep->movable - first - second, moved = lesser(zeros, budget), also = lesser(ones, budget - moved);
    memset(multiset, 0, (size_t)search->vertices * sizeof(whole));
    multiset[by_zero] += moved, multiset[search->zero] += zeros - moved;
    multiset[by_one] += also, multiset[search->one] += ones - also;
    multiset[__builtin_ctzll(sweep->pair[0].vertex[corner & 1])] += first;
    if (second) multiset[__builtin_ctzll(sweep->pair[1].vertex[corner >> 1])] += second;
}

/* Offer the multisets at corners that are worse than their neighbours, and some far from each other. */
static void offer_corners(Sweep *sweep) {
    ArcSearch *search = sweep->search;
    whole size = sweep->size, most = sweep->pairs > 1 ? sweep->movable : 0;
    whole apart = 1; /* half of the root of K */
    while (4 * (apart + 1) * (apart + 1) <= search->K) apart++;
    for (whole at = 0; at < size * size; at++) sweep->top[at] = -DBL_MAX;
    for (whole second = 0; second <= most; second++) {
        start_column(sweep, 4, second);
        for (whole first = 0; first <= sweep->movable - second; first++) {
            whole n = search->K - first - second + 1, at = second * size + first;
            if (is_over(sweep->work->deadline, search->stop)) {
                sweep->work->failed = OUT_OF_TIME;
                return;
            }
            if (first) pair_step(sweep->pair, sweep->now, 4, 0, n);
            double *const *x = sweep->now;
            whole budget = sweep->movable - first - second, best = 0;
            for (int corner = 0; corner < 4; corner++) {
                const double *y = x[3 - corner];
                double ends[2] = {with_ends(sweep, x[corner], y, 0, n - 1, budget), with_ends(sweep, x[corner], y, n - 1, 0, budget)};
                for (whole l = 0; l < n && !corner; l++) sweep->bound[l] = -DBL_MAX;
                sweep->bound[0] = largest(sweep->bound[0], ends[0]), sweep->bound[n - 1] = largest(sweep->bound[n - 1], ends[1]);
                best_with_ends(x[corner], y, sweep->bound, n - 1, search->q, (double)budget, sweep->away[0], sweep->away[1]);
            }
            for (whole l = 1; l < n; l++)
                if (sweep->bound[l] > sweep->bound[best]) best = l;
            int corner = 0;
            while (corner < 3 && with_ends(sweep, x[corner], x[3 - corner], best, n - 1 - best, budget) < sweep->bound[best]) corner++;
            sweep->top[at] = sweep->bound[best], sweep->top_at[at] = packed(sweep, best, n, corner);
        }
    }
    for (whole second = 0; second <= most; second++)
        for (whole first = 0; first <= sweep->movable - second; first++) {
            double top = sweep->top[second * size + first];
            int is_top = top > smallest(search->most ? search->above : DBL_MAX, search->value);
            int is_spread = search->most && first % apart == 0 && second % apart == 0;
            for (whole k = 0; k < 9 && is_top && !is_spread; k++) {
                whole i = first + k % 3 - 1, j = second + k / 3 - 1;
                if (i >= 0 && j >= 0 && i < size && j < size && sweep->top[j * size + i] > top) is_top = 0;
            }
            if (!is_top) continue;
            unpack(sweep, first, second, sweep->top_at[second * size + first], sweep->work->multiset);
            offer(sweep->work, sweep->work->multiset);
        }
}

/* The next difference, in place: n + 1 entries become n. */
LOOP void next_difference(double *v, whole n) {
    for (whole l = 0; l < n; l++) v[l] = v[l + 1] - v[l];
}

LOOP void add_multiple(double *restrict sum, const double *restrict v, whole n, double factor) {
    for (whole l = 0; l < n; l++) sum[l] += factor * fabs(v[l]);
}

/* The elementary symmetric functions of so many numbers `half`. */
static void symmetric(double *e, whole count, double half) {
    e[0] = 1.0;
    for (int i = 1; i <= ORDERS; i++) e[i] = count < i ? 0.0 : e[i - 1] * half * (double)(count - i + 1) / i;
}

/* Bound phi for these inner voters, whatever they and those by the ends do; and search what is above the level. */
static void bound_row(Sweep *sweep, whole first, whole second) {
    ArcSearch *search = sweep->search;
    whole count[2] = {first, second}, voters = first + second, n = search->K - voters + 1;
    double q = search->q, e[2][ORDERS + 1], fewer[2][ORDERS + 1] = {{0.0}}, way = 0.0;
    for (int c = 0; c < 2; c++) {
        double half = c < sweep->pairs ? sweep->pair[c].half : 0.0;
        symmetric(e[c], count[c], half);
        if (count[c]) symmetric(fewer[c], count[c] - 1, half);
        way += (double)count[c] * half;
    }
    double beyond = 0.0, slope_beyond = 0.0, ratio = way; /* ratio: way^(J + 1) / (J + 1)! */
    int last = 0;
    for (int order = 1; order <= ORDERS; order++) { /* the series ends where the remainder is small */
        last = order;
        double most = (1.0 + q) * most_difference(sweep, order + 1, voters - order - 1);
        slope_beyond = voters > order ? most * ratio : 0.0;
        ratio *= way / (order + 1);
        beyond = voters > order ? most * ratio : 0.0;
        if (beyond <= SMALL_REMAINDER) break;
    }
    double ends = (double)(n - 1) * largest(sweep->away[0], sweep->away[1]), *d = sweep->power;
    double *sums[] = {sweep->sure[0], sweep->sure[1], sweep->rest, sweep->move, sweep->bend};
    for (int k = 0; k < 5; k++) memset(sums[k], 0, (size_t)n * sizeof(double));
    for (int i = 0; i <= last && i <= first; i++)
        for (int j = 0; j <= last - i && j <= second; j++) {
            int order = i + j;
            double factor = fabs(q - (order & 1 ? -1.0 : 1.0)), all = e[0][i] * e[1][j];
            memcpy(d, kept_row(sweep, first - i, second - j), (size_t)(n + order) * sizeof(double));
            for (int k = 1; k <= order; k++) next_difference(d, n + order - k);
            if (order) add_multiple(sweep->rest, d, n, factor * all);
            /* of the slope of a voter of either pair: what is certain of it, less the rest */
            double sign = order == 1 ? 1.0 : -1.0;
            if (i) add_multiple(sweep->sure[0], d, n, sign * factor * fewer[0][i - 1] * e[1][j]);
            if (j) add_multiple(sweep->sure[1], d, n, sign * factor * e[0][i] * fewer[1][j - 1]);
            if (ends <= 0) continue;
            /* of the slopes of a voter at an end, and of what another one there changes of them */
            next_difference(d, n - 1);
            add_multiple(sweep->move, d, n - 1, all);
            next_difference(d, n - 2);
            add_multiple(sweep->bend, d, n - 2, all);
        }
    double ends_bend = ends * most_difference(sweep, 2, voters - 1), ends_change = ends * most_difference(sweep, 2, voters);
    if (ends > 0) {
        double rest[2] = {0.0, 0.0};
        for (int k = 0; k < 2 && voters > last; k++) rest[k] = ratio * most_difference(sweep, last + 2 + k, voters - last - 1);
        rest[0] += ends * (rest[1] + ends * most_difference(sweep, 3, voters));
        for (whole l = 0; l < n - 1; l++) {
            double bend = largest(l < n - 2 ? sweep->bend[l] : 0.0, l ? sweep->bend[l - 1] : 0.0);
            sweep->move[l] += smallest(ends_change, ends * bend) + rest[0];
        }
    }
    double *const *x = sweep->now, most_q = largest(1.0, q);
    best_corner(x[0], x[1], x[2], x[3], sweep->bound, n, q);
    for (whole l = 0; l < n && !sweep->work->failed; l++) {
        int is_sure = 1, is_sure_of_all = 1;
        for (int c = 0; c < 2; c++)
            if (count[c]) {
                is_sure &= sweep->sure[c][l] > slope_beyond + sweep->rounding;
                is_sure_of_all &= sweep->sure[c][l] > slope_beyond + (1.0 + q) * ends_bend + sweep->rounding;
            }
        double bound = (q - 1.0) * x[4][l] + sweep->rest[l] + beyond;
        if (is_sure) bound = smallest(bound, sweep->bound[l]);
        whole zeros = n - 1 - l;
        if (zeros) bound += (double)zeros * sweep->away[0] * most_q * sweep->move[l];
        if (l) bound += (double)l * sweep->away[1] * most_q * sweep->move[l - 1];
        uint64_t inner[2] = {0, 0};
        int corner = 0;
        for (int c = 0; c < sweep->pairs; c++) {
            const Pair *pair = sweep->pair + c;
            inner[c] = pair->vertex[0] | pair->vertex[1];
            if (!is_sure_of_all || !count[c]) continue;
            const double *from = kept_row(sweep, first - !c, second - c);
            int side = from[l + 1] > from[l];
            inner[c] = pair->vertex[side], corner |= side << c;
        }
        if (is_sure_of_all) { /* there, the slopes of those at the ends are known but for what the others at the ends do */
            double change = ((double)zeros * sweep->away[0] + (double)l * sweep->away[1]) * most_q * ends_change;
            bound = smallest(bound, with_ends(sweep, x[corner], x[3 - corner], l, zeros, search->K) + change);
        }
        bound += sweep->rounding;
        if (bound <= level(search)) {
            leave_out(search, bound);
            continue;
        }
        /* what the sweep leaves: the voters that may not move are among those at the ends, in every way */
        whole fixed = search->K - sweep->movable;
        for (whole ones = greater(0, fixed - zeros); ones <= lesser(l, fixed); ones++) {
            Node node = {0, {{0, 0, 0}}};
            for (int c = 0; c < 2; c++) add(&node, inner[c], count[c]);
            add(&node, sweep->ends[0], zeros - (fixed - ones));
            add(&node, sweep->ends[1], l - ones);
            if (ones) node.arc[node.arcs++] = (Arc){(uint64_t)1 << search->one, ones, 1};
            if (fixed - ones) node.arc[node.arcs++] = (Arc){(uint64_t)1 << search->zero, fixed - ones, 1};
            search_node(sweep->work, &node, bound);
        }
    }
}

/* Bound all, one number of inner voters after another. */
static void bound_all(Sweep *sweep) {
    ArcSearch *search = sweep->search;
    for (whole second = 0; second <= (sweep->pairs > 1 ? sweep->movable : 0); second++) {
        start_column(sweep, 5, second);
        for (whole first = 0; first <= sweep->movable - second; first++) {
            whole n = search->K - first - second + 1;
            if (is_over(sweep->work->deadline, search->stop)) sweep->work->failed = OUT_OF_TIME;
            if (sweep->work->failed) return;
            if (first) pair_step(sweep->pair, sweep->now, 5, 0, n);
            memcpy(kept_row(sweep, first, second), sweep->now[4], (size_t)n * sizeof(double));
            bound_row(sweep, first, second);
        }
    }
}

/* Whether the series is of use even where all voters are inner ones; and a bound on the rounding of its terms. */
static int converges(Sweep *sweep) {
    double way = 0.0, term = 1.0, terms = 1.0;
    for (int c = 0; c < sweep->pairs; c++) way = largest(way, sweep->pair[c].half * (double)sweep->movable);
    for (int order = 1; order <= ORDERS; order++) term *= 2 * way / order, terms += term;
    sweep->rounding = 8 * (double)(sweep->search->K + 2) * 0x1p-49 * (1.0 + sweep->search->q) * sweep->largest * terms;
    find_peaks(sweep);
    double remainder = term / (1 << ORDERS) * way / (ORDERS + 1);
    return sweep->movable <= ORDERS || remainder * most_difference(sweep, ORDERS + 1, sweep->movable - ORDERS - 1) < LARGE_REMAINDER;
}

/* Memory of a sweep and its arrays; NULL where there are more pairs of inner vertices, or no memory. */
static double *prepare_sweep(Sweep *sweep, Work *work, whole movable) {
    if (!find_pairs(sweep, work->search, movable)) return NULL;
    size_t size = (size_t)sweep->size;
    double *memory = malloc(((ORDERS + 3) * size + 18) * size * sizeof(double));
    if (!memory) return NULL;
    sweep->work = work;
    sweep->kept = memory, sweep->top = memory + (ORDERS + 1) * size * size;
    sweep->top_at = (whole *)(sweep->top + size * size);
    double *next = sweep->top + 2 * size * size;
    for (int k = 0; k < 5; k++, next += 2 * size) sweep->start[k] = next, sweep->now[k] = next + size;
    double **arrays[] = {&sweep->bound, sweep->sure,  sweep->sure + 1, &sweep->rest,
                         &sweep->move,  &sweep->bend, &sweep->peak,    &sweep->power};
    for (int k = 0; k < 8; k++, next += size) *arrays[k] = next;
    for (whole l = 0; l < sweep->size; l++) sweep->largest = largest(sweep->largest, fabs(work->search->signed_values[l]));
    return memory;
}

/* Search all by a sweep; returns 0 where there is none, or where inner vertices lie too far from the diagonal for it. */
static int search_by_sweep(Work *work, whole movable) {
    ArcSearch *search = work->search;
    Sweep sweep;
    double *memory = prepare_sweep(&sweep, work, movable);
    int is_possible = memory && converges(&sweep);
    if (is_possible) {
        whole most = search->most;
        if (search->value > search->above) search->most = 0; /* there is a cut: of the others, only the worst is of use */
        bound_all(&sweep);
        search->most = most;
    }
    free(memory);
    return is_possible;
}

/* `arcs.climb`: offer what a sweep finds where all voters of a pair of inner vertices sit at one of them. */
EXPORT int sweep_corners(ArcSearch *search, whole movable) {
    Work work = {.search = search, .deadline = deadline_in(search->seconds)};
    void *memory = prepare(&work);
    if (!memory) return OUT_OF_MEMORY;
    Sweep sweep;
    double *own = prepare_sweep(&sweep, &work, movable);
    if (own) offer_corners(&sweep);
    free(own);
    free(memory);
    return work.failed;
}

/*
 * `arcs.search_arcs`: `movable` voters anywhere on the vertices, the others at (0, 0) and (1, 1) in every way. What is left
 * out has phi <= left_out. Returns 0, or why not.
 */
EXPORT int search_arcs(ArcSearch *search, whole movable) {
    Work work = {.search = search, .deadline = deadline_in(search->seconds)};
    void *memory = prepare(&work);
    if (!memory) return OUT_OF_MEMORY;
    if (!search_by_sweep(&work, movable))
        for (whole ones = 0; ones <= search->K - movable; ones++) {
            Node root = root_of(search, movable, ones);
            search_node(&work, &root, DBL_MAX);
        }
    free(memory);
    return work.failed;
}

/* Several slopes q at once, and for each what `ArcSearch` has for one. */
typedef struct {
    const double *q, *above;
    double *value, *left_out;
    whole *counts; /* [slopes][vertices] */
} Joint;

static double level_of(const Joint *joint, int k) { return largest(joint->above[k], joint->value[k]); }

/* As `search_node`, for the slopes asked: their nodes are nearly the same, and most of the work is that of a node. */
static void search_jointly(Work *work, Joint *joint, const Node *given, const double *bounds, uint64_t asked) {
    ArcSearch *search = work->search;
    double bound[MAX_JOINT], value[MAX_JOINT], rounding[MAX_JOINT], term[ARCS][MAX_JOINT];
    int stop = search->exhausted || work->failed || given->arcs + 2 > ARCS;
    for (uint64_t each = asked; each; each &= each - 1) {
        int k = __builtin_ctzll(each);
        bound[k] = bounds[k];
        if (!stop && bound[k] > level_of(joint, k)) continue;
        joint->left_out[k] = largest(joint->left_out[k], bound[k]);
        asked &= ~((uint64_t)1 << k);
    }
    if (!asked) return;
    if (search->nodes % NODES_BETWEEN_CHECKS == 0 && is_over(work->deadline, search->stop)) work->failed = OUT_OF_TIME;
    if (++search->nodes > search->most_nodes) search->exhausted = 1;
    Node node = *given;
    Place place[ARCS];
    Slope slope[ARCS];
    Curvature curvature;
    for (int i = 0; i < node.arcs; i++) place[i] = place_and_middle(search, node.arc[i].alive);
    slopes(work, &node, place, slope, &curvature);
    if (!reduce(search, &node, slope, joint->q, asked)) return;
    if (!is_open(search, &node, work->multiset)) {
        double on_data = mean(work, search->p, work->multiset), on_neighbour = mean(work, search->reflected, work->multiset);
        for (uint64_t each = asked; each; each &= each - 1) {
            int k = __builtin_ctzll(each);
            if (joint->q[k] * on_data + on_neighbour <= joint->value[k]) continue;
            joint->value[k] = joint->q[k] * on_data + on_neighbour;
            memcpy(joint->counts + k * search->vertices, work->multiset, (size_t)search->vertices * sizeof(whole));
        }
        return;
    }
    double way[2];
    ways_of(search, &node, place, way);
    average_slopes(search, &node, &curvature, way, slope);
    int pilot = -1; /* the slope that is farthest from being proved says where to cut */
    for (uint64_t each = asked; each; each &= each - 1) {
        int k = __builtin_ctzll(each);
        double sum = 0.0;
        search->q = joint->q[k];
        value[k] = search->q * curvature.means[0] - curvature.means[1];
        for (int i = 0; i < node.arcs; i++) {
            double gain = -DBL_MAX;
            for (uint64_t rest = node.arc[i].alive; rest; rest &= rest - 1)
                gain = largest(gain, gain_from(search, place[i].middle, __builtin_ctzll(rest), slope[i]));
            term[i][k] = (double)node.arc[i].count * gain;
            sum += fabs(term[i][k]);
            value[k] += term[i][k];
        }
        rounding[k] = 2 * search->fuzz * (way[0] + way[1]) + 0x1p-46 * sum;
        bound[k] = smallest(bound[k], value[k] + rounding[k]);
        if (bound[k] <= level_of(joint, k)) {
            joint->left_out[k] = largest(joint->left_out[k], bound[k]);
            asked &= ~((uint64_t)1 << k);
        } else if (pilot < 0 || bound[k] - level_of(joint, k) > bound[pilot] - level_of(joint, pilot))
            pilot = k;
    }
    if (!asked) return;
    int widest = -1;
    for (int i = 0; i < node.arcs; i++)
        if (!single(node.arc[i].alive) &&
            (widest < 0 || term[i][pilot] * place[i].width > term[widest][pilot] * place[widest].width))
            widest = i;
    uint64_t alive = node.arc[widest].alive, left = first_half(search, alive);
    uint64_t halves[2] = {left, alive & ~left};
    double gain[2][MAX_JOINT];
    for (int half = 0; half < 2; half++)
        for (uint64_t each = asked; each; each &= each - 1) {
            int k = __builtin_ctzll(each);
            search->q = joint->q[k];
            gain[half][k] = -DBL_MAX;
            for (uint64_t rest = halves[half]; rest; rest &= rest - 1)
                gain[half][k] = largest(gain[half][k], gain_from(search, place[widest].middle, __builtin_ctzll(rest), slope[widest]));
        }
    whole count = node.arc[widest].count, h = (count + 1) / 2;
    int better = gain[1][pilot] > gain[0][pilot];
    for (int round = 0; round < 2; round++) {
        int half = round ? !better : better;
        whole there = round ? count - h + 1 : h;
        double below[MAX_JOINT];
        for (uint64_t each = asked; each; each &= each - 1) {
            int k = __builtin_ctzll(each);
            double terms = (double)there * gain[half][k] + (double)(count - there) * largest(gain[0][k], gain[1][k]);
            below[k] = smallest(bound[k], value[k] - term[widest][k] + terms + rounding[k] + 0x1p-46 * fabs(terms));
        }
        Node child = child_of(&node, widest, halves[half], there, alive);
        search_jointly(work, joint, &child, below, asked);
    }
}

/*
 * `arcs.search_jointly`: as `search_arcs`, without cuts, at `many` slopes q at once, at most MAX_JOINT.
 */
EXPORT int search_arcs_jointly(ArcSearch *search, whole movable, whole many, const double *q, const double *above,
                               double *value, double *left_out, whole *counts) {
    Work work = {.search = search, .deadline = deadline_in(search->seconds)};
    void *memory = prepare(&work);
    if (!memory) return OUT_OF_MEMORY;
    Joint joint = {q, above, value, left_out, counts};
    double none[MAX_JOINT];
    for (int k = 0; k < MAX_JOINT; k++) none[k] = DBL_MAX;
    whole others = search->K - movable;
    for (whole ones = 0; ones <= others; ones++) {
        Node root = root_of(search, movable, ones);
        search_jointly(&work, &joint, &root, none, many == 64 ? ~(uint64_t)0 : ((uint64_t)1 << many) - 1);
    }
    free(memory);
    return work.failed;
}

/*
 * `arcs.climb`: from each multiset, one voter at a time to the vertex where phi gains most, until none does. counts:
 * [many][vertices], in place; movable[v]: whether v moves (p is not p'); at most `affected` voters there.
 */
EXPORT int climb_multisets(ArcSearch *search, whole many, whole *multisets, const whole *moving, whole affected) {
    size_t size = (size_t)(search->K + 1);
    whole V = search->vertices;
    Work work = {.search = search, .deadline = deadline_in(search->seconds)};
    double *memory = malloc(4 * size * sizeof(double) + (size_t)V * sizeof(whole));
    if (!memory) return OUT_OF_MEMORY;
    work.blossom = memory + 3 * size;
    double *differences = memory, *own[2] = {memory + size, memory + 2 * size};
    work.multiset = (whole *)(memory + 4 * size);
    for (whole l = 0; l < search->K; l++) differences[l] = search->signed_values[l + 1] - search->signed_values[l];
    for (whole k = 0; k < many && !work.failed; k++) {
        whole *multiset = multisets + k * V, moved = 0;
        for (whole v = 0; v < V; v++) moved += moving[v] ? multiset[v] : 0;
        for (whole round = 0; round < 4 * search->K + 16; round++) {
            double best = 0.0;
            whole from = -1, to = -1;
            if (is_over(work.deadline, search->stop)) {
                work.failed = OUT_OF_TIME;
                break;
            }
            for (whole v = 0; v < V; v++) {
                if (!multiset[v]) continue;
                double slope[2];
                for (int side = 0; side < 2; side++) {
                    const double *chances = side ? search->reflected : search->p;
                    whole n = search->K - 1;
                    memcpy(own[side], differences, (size_t)search->K * sizeof(double));
                    for (whole w = 0; w < V; w++)
                        for (whole voter = w == v; voter < multiset[w]; voter++)
                            step(own[side], n--, chances[w], 1.0 - chances[w]);
                    slope[side] = own[side][0];
                }
                for (whole w = 0; w < V; w++) {
                    if (moving[w] && !moving[v] && moved >= affected) continue;
                    double gain = search->q * slope[0] * (search->p[w] - search->p[v]) +
                                  slope[1] * (search->reflected[w] - search->reflected[v]);
                    if (gain > best) best = gain, from = v, to = w;
                }
            }
            if (best <= 4 * search->fuzz) break;
            multiset[from]--, multiset[to]++;
            moved += (moving[to] != 0) - (moving[from] != 0);
        }
        offer(&work, multiset);
    }
    free(memory);
    return work.failed;
}
