/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An intrusive doubly linked list. A `struct u_list` is either the head of a list or a link inside
 * a struct that can be on one; both are a ring of pointers, so nothing has a special case at an
 * end. The list owns nothing. U_CONTAINER_OF leads from a link to the struct around it.
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

/* Makes an empty list of a head, or a link that is on no list. Needed before any other call. */
U_INLINE void u_list_init(struct u_list *list)
{
    list->next = list;
    list->prev = list;
}

/* Of a head: whether the list is empty. Of a link: whether it is on no list. */
U_INLINE int u_list_is_empty(const struct u_list *list)
{
    return list->next == list;
}

/* Puts a link that is on no list behind `place`, which is a head (so it comes first) or a link. */
U_INLINE void u_list_insert_after(struct u_list *place, struct u_list *link)
{
    link->next = place->next;
    link->prev = place;
    place->next->prev = link;
    place->next = link;
}

U_INLINE void u_list_push_front(struct u_list *head, struct u_list *link)
{
    u_list_insert_after(head, link);
}

U_INLINE void u_list_push_back(struct u_list *head, struct u_list *link)
{
    struct u_list *last = head->prev;

    link->next = head;
    link->prev = last;
    last->next = link;
    head->prev = link;
}

/* Takes a link off its list; does nothing to one that is on no list. */
U_INLINE void u_list_remove(struct u_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    u_list_init(link);
}

/* Takes the first link off the list and returns it, or null if the list is empty. */
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
 * Makes `link`, or the head itself, what the list begins with. The links before it were taken off
 * one after the other, each by u_list_init(): of a run of them the ends are tied once.
 */
U_INLINE void u_list_begin_with(struct u_list *head, struct u_list *link)
{
    head->next = link;
    link->prev = head;
}

/* Appends all links of `from` to `to`, in their order, and leaves `from` empty. */
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
