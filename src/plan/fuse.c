/* fuse.c: what runs together. Elementwise nodes, reductions and copies are items; items of one
   depth and one shape that have something in common (a value of the cluster, a load, a concat
   that they write to) form a cluster, and region.c makes regions of it. Reading the same scalar
   is nothing in common; but scalars themselves are cheaper together. */
#include "plan/plan.h"

typedef struct {
    int32_t depth, item;
} Group; /* items of one depth and shape; item shows the shape */
typedef struct {
    int32_t group, item;
    Id id;
} Link; /* the first item of a group that has to do with id */
typedef struct {
    Draft *d;
    Item *items;
    int n_items, cap_items;
    Group *groups;
    int n_groups, cap_groups;
    Link *links;
    int n_links, cap_links;
    HashIndex group_index, link_index;
    int32_t *root; /* union-find over items */
} Fuse;

/* ---- items, in order of ids ---- */

static bool add(Fuse *f, ItemKind kind, Id value, int depth, Id parent, const Spot *to)
{
    Item *items = plan_grow(f->d, f->items, f->n_items, &f->cap_items, sizeof *items);
    Spot *keep = to ? plan_alloc(f->d, 1, sizeof *keep) : NULL;
    if (!items || (to && !keep)) return false;
    if (to) *keep = *to;
    f->items = items;
    items[f->n_items++] = (Item){.kind = (uint8_t)kind,
                                 .value = value,
                                 .depth = depth,
                                 .parent = parent,
                                 .next = -1,
                                 .to = keep};
    return true;
}

/* Parts that nobody makes in place are copied: from memory as late as the last part is made, so
   that the whole lives shortly. */
static bool add_parts(Fuse *f, const Node *n)
{
    Draft *d = f->d;
    int64_t start = place_start(n);
    for (uint32_t k = 0; k < n->n; k++) {
        Id x = n->x[k], base = view_base(d, x);
        Spot to;
        bool placed = d->place[base] && d->place[base]->parent == n->first;
        if (!placed) {
            if (!place_part(d, n, x, start, &to)) return false;
            int depth = d->same[x] != NO_ID ? d->depth[d->same[x]] : d->depth[n->first];
            if (!add(f, ITEM_STORE, x, depth, n->first, &to)) return false;
        }
        start += d->g->types[x].dims[n->attr->i];
    }
    return true;
}

static bool add_reduce(Fuse *f, const Node *n)
{
    int split;
    if (region_form(&f->d->g->types[n->x[0]], n->attr, &split) == REDUCE_NONE)
        return region_permuted(f->d, n->first, f->d->depth[n->first]);
    return add(f, ITEM_REDUCE, n->first, f->d->depth[n->first], NO_ID, NULL);
}

static bool add_copy(Fuse *f, const Node *n)
{
    Draft *d = f->d;
    const Type *x = &d->g->types[n->x[0]], *t = &d->g->types[n->first];
    Spot spot, to;
    if (!place_spot(d, n->first, &spot)) return false;
    to = spot; /* the copy runs over the operand's shape */
    if (!view_reshape(t, spot.stride, x, to.stride))
        return plan_fail(d, QB_EBUG, "reshape: a copy to where no strides lead");
    Id parent = d->place[n->first] ? d->place[n->first]->parent : NO_ID;
    return add(f, ITEM_STORE, n->x[0], d->depth[n->first], parent, &to);
}

/* Operands of a loop or a call that are not row-major in memory. */
static bool add_temps(Fuse *f, const Node *n)
{
    Draft *d = f->d;
    if (!loop_temps(d, n)) return false;
    for (uint32_t k = 0; k < n->n; k++) {
        Spot to = {.slot = d->temp[n->first][k]};
        if (to.slot < 0) continue;
        view_rows(&d->g->types[n->x[k]], to.stride);
        if (!add(f, ITEM_STORE, n->x[k], depth_ready(d, view_base(d, n->x[k])), NO_ID, &to))
            return false;
    }
    return true;
}

static bool add_node(Fuse *f, const Node *n)
{
    switch (f->d->made[n->first]) {
    case MADE_ELEM: return add(f, ITEM_INSTR, n->first, f->d->depth[n->first], NO_ID, NULL);
    case MADE_REDUCE: return add_reduce(f, n);
    case MADE_COPY: return add_copy(f, n);
    case MADE_CONCAT:
    case MADE_PAD: return add_parts(f, n);
    case MADE_LOOP:
    case MADE_CALL: return add_temps(f, n);
    default: return true;
    }
}

/* Outputs that no step writes in place. */
static bool add_output(Fuse *f, uint32_t i)
{
    Draft *d = f->d;
    Id v = d->g->outputs[i], base;
    Spot to = {.slot = (int)(d->g->n_inputs + i)};
    if (view_whole(d, v, &base) && d->slot[base] == to.slot) return true;
    view_rows(&d->g->types[v], to.stride);
    int depth = d->same[v] != NO_ID ? d->depth[d->same[v]] : depth_ready(d, view_base(d, v));
    return add(f, ITEM_STORE, v, depth, NO_ID, &to);
}

/* ---- clusters ---- */

static const Type *shape_of(const Fuse *f, const Item *it)
{
    const Graph *g = f->d->g;
    return &g->types[it->kind == ITEM_REDUCE ? g->nodes[g->def[it->value]].x[0] : it->value];
}

static int32_t find(Fuse *f, int32_t i)
{
    while (f->root[i] != i) i = f->root[i] = f->root[f->root[i]];
    return i;
}

/* The smaller item is the root, so a cluster is known by its first. */
static void join(Fuse *f, int32_t a, int32_t b)
{
    a = find(f, a);
    b = find(f, b);
    if (a < b)
        f->root[b] = a;
    else
        f->root[a] = b;
}

/* The group of an item; -1 when out of memory. */
static int group_of(Fuse *f, int32_t item)
{
    int64_t dims[QB_MAX_RANK], other[QB_MAX_RANK];
    int depth = f->items[item].depth, rank = view_strip(shape_of(f, &f->items[item]), dims);
    uint64_t hash = hash_mix((uint64_t)depth, (uint64_t)rank);
    for (int i = 0; i < rank; i++) hash = hash_mix(hash, (uint64_t)dims[i]);
    uint32_t at = HASH_START;
    for (uint32_t id = hash_next(&f->group_index, hash, &at); id != UINT32_MAX;
         id = hash_next(&f->group_index, hash, &at)) {
        const Group *g = &f->groups[id];
        if (g->depth != depth || view_strip(shape_of(f, &f->items[g->item]), other) != rank)
            continue;
        if (memcmp(dims, other, (size_t)rank * sizeof *dims) == 0) return (int)id;
    }
    Group *groups = plan_grow(f->d, f->groups, f->n_groups, &f->cap_groups, sizeof *groups);
    if (!groups) return -1;
    f->groups = groups;
    groups[f->n_groups] = (Group){.depth = depth, .item = item};
    if (!hash_add(&f->group_index, hash, (uint32_t)f->n_groups))
        return error_memory(f->d->err, "a plan", -1), -1;
    return f->n_groups++;
}

/* `item` has to do with id; so has who came before, and they are one cluster. */
static bool link(Fuse *f, int group, int32_t item, Id id)
{
    uint64_t hash = hash_mix(hash_mix(7, (uint64_t)group), id);
    uint32_t at = HASH_START;
    for (uint32_t l = hash_next(&f->link_index, hash, &at); l != UINT32_MAX;
         l = hash_next(&f->link_index, hash, &at)) {
        if (f->links[l].group != group || f->links[l].id != id) continue;
        join(f, item, f->links[l].item);
        return true;
    }
    Link *links = plan_grow(f->d, f->links, f->n_links, &f->cap_links, sizeof *links);
    if (!links) return false;
    f->links = links;
    links[f->n_links] = (Link){.group = group, .item = item, .id = id};
    if (!hash_add(&f->link_index, hash, (uint32_t)f->n_links))
        return error_memory(f->d->err, "a plan", -1), false;
    f->n_links++;
    return true;
}

/* Links an item to what it reads; a value that is the same in every element does not count. */
static bool link_read(Fuse *f, int group, int32_t item, Id x)
{
    const Draft *d = f->d;
    if (d->same[x] != NO_ID) return link(f, group, item, d->same[x]);
    View w;
    view_of(d, x, &w);
    bool varies = false;
    for (int i = 0; i < d->g->types[x].rank; i++) varies |= w.stride[i] != 0;
    return !varies || link(f, group, item, w.base);
}

static bool link_item(Fuse *f, int32_t i)
{
    const Graph *g = f->d->g;
    const Item *it = &f->items[i];
    int64_t dims[QB_MAX_RANK];
    int group = group_of(f, i);
    if (group < 0) return false;
    if (view_strip(shape_of(f, it), dims) == 0) return join(f, i, f->groups[group].item), true;
    if (it->kind == ITEM_STORE)
        return link_read(f, group, i, it->value) &&
               (it->parent == NO_ID || link(f, group, i, it->parent));
    const Node *n = &g->nodes[g->def[it->value]];
    for (uint32_t k = 0; k < n->n; k++)
        if (!link_read(f, group, i, n->x[k])) return false;
    return it->kind == ITEM_REDUCE || link(f, group, i, it->value);
}

/* Chains the items of each cluster and hands it over. */
static bool hand_over(Fuse *f)
{
    int32_t *last = plan_alloc(f->d, f->n_items, sizeof *last);
    if (!last) return false;
    for (int32_t i = 0; i < f->n_items; i++) {
        int32_t r = find(f, i);
        if (r != i) f->items[last[r]].next = i;
        last[r] = i;
    }
    for (int32_t i = 0; i < f->n_items; i++)
        if (f->root[i] == i && !region_cluster(f->d, f->items, i)) return false;
    return true;
}

/* First of all, since whoever writes a part names the fill. */
static bool add_fills(Draft *d)
{
    for (uint32_t i = 0; i < d->g->n_nodes; i++) {
        Id v = d->g->nodes[i].first;
        if (d->made[v] == MADE_PAD && (d->fill[v] = region_fill(d, v)) < 0) return false;
    }
    return true;
}

static bool build(Fuse *f)
{
    Draft *d = f->d;
    if (!add_fills(d)) return false;
    for (uint32_t i = 0; i < d->g->n_nodes; i++)
        if (!add_node(f, &d->g->nodes[i])) return false;
    for (uint32_t i = 0; i < d->g->n_outputs; i++)
        if (!add_output(f, i)) return false;
    f->root = plan_alloc(d, f->n_items, sizeof *f->root);
    if (!f->root) return false;
    for (int32_t i = 0; i < f->n_items; i++) f->root[i] = i;
    for (int32_t i = 0; i < f->n_items; i++)
        if (!link_item(f, i)) return false;
    return hand_over(f);
}

bool fuse_run(Draft *d)
{
    Fuse f = {.d = d};
    d->fill = plan_alloc(d, d->g->n_values, sizeof *d->fill);
    bool ok = d->fill && region_open(d) && build(&f);
    hash_free(&f.group_index);
    hash_free(&f.link_index);
    return ok;
}
