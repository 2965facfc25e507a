/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Intrusive doubly linked ring. An unlinked node points at itself, so unlinking twice is harmless
 * and hv_list_linked() tells. The list owns nothing; locking is the user's.
 */
#pragma once

#include <hv/compiler.h>

#include <stdbool.h>
#include <stddef.h>

struct hv_list {
    struct hv_list *next;
    struct hv_list *prev;
};

static inline void hv_list_init(struct hv_list *node)
{
    node->next = node;
    node->prev = node;
}

/** True when @node stands in a list (or, for a head, when the list is not empty). */
static inline bool hv_list_linked(const struct hv_list *node)
{
    return node->next != node;
}

static inline void hv_list_push_tail(struct hv_list *head, struct hv_list *node)
{
    node->next = head;
    node->prev = head->prev;
    head->prev->next = node;
    head->prev = node;
}

static inline void hv_list_unlink(struct hv_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    hv_list_init(node);
}

/** Unlink and return the first node, or NULL when the list is empty. */
static inline struct hv_list *hv_list_pop_head(struct hv_list *head)
{
    struct hv_list *first = head->next;

    if (first == head) {
        return NULL;
    }
    hv_list_unlink(first);
    return first;
}

#define hv_list_entry(node, type, member) HV_CONTAINER_OF(node, type, member)

/* @node must not be unlinked in the body. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a declared name cannot stand in them */
#define hv_list_for_each(node, head) \
    for (struct hv_list *node = (head)->next; node != (head); node = node->next)
/* NOLINTEND(bugprone-macro-parentheses) */
