/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An intrusive doubly linked list. A `struct u_list` is either the head of a list or a link in a
 * struct that can be on one; head and links form a ring. The list owns no memory. U_CONTAINER_OF
 * converts a link to its struct.
 *
 *     for (link = head.next; link != &head; link = link->next)
 *         conn = U_CONTAINER_OF(link, struct us_conn, ready_link);
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/base.h"

struct u_list {
    struct u_list *next;
    struct u_list *prev;
};

/* Initialises a head as empty or a link as unlinked. Required before any other call. */
U_INLINE void u_list_init(struct u_list *list)
{
    list->next = list;
    list->prev = list;
}

/* For a head: whether the list is empty. For a link: whether it is unlinked. */
U_INLINE int u_list_is_empty(const struct u_list *list)
{
    return list->next == list;
}

U_INLINE void u_list_push_front(struct u_list *head, struct u_list *link)
{
    link->next = head->next;
    link->prev = head;
    head->next->prev = link;
    head->next = link;
}

U_INLINE void u_list_push_back(struct u_list *head, struct u_list *link)
{
    struct u_list *last = head->prev;

    link->next = head;
    link->prev = last;
    last->next = link;
    head->prev = link;
}

/* Removes a link from its list; no effect on an unlinked one. */
U_INLINE void u_list_remove(struct u_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    u_list_init(link);
}

/* Removes and returns the first link, or returns null if the list is empty. */
U_INLINE struct u_list *u_list_pop_front(struct u_list *head)
{
    struct u_list *link = head->next;

    if (link == head)
        return (struct u_list *)U_NULL;
    head->next = link->next;
    link->next->prev = head;
    u_list_init(link);
    return link;
}

/*
 * Makes `link`, or the head itself, the first of the list. The caller has unlinked all links before
 * it by u_list_init() alone.
 */
U_INLINE void u_list_begin_with(struct u_list *head, struct u_list *link)
{
    head->next = link;
    link->prev = head;
}

/* Moves all links of `from` to the end of `to`, in order. */
U_INLINE void u_list_append_all(struct u_list *to, struct u_list *from)
{
    if (u_list_is_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    u_list_init(from);
}

#endif
