/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoding, building and describing Ethernet frames for the tests. See frame.h. */
#include "frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ETH_BYTES = 14, IP_BYTES = 20, TCP_BYTES = 20, ARP_BYTES = 28, ICMP_BYTES = 8 };
enum { ETHERTYPE_IP4 = 0x0800, ETHERTYPE_ARP = 0x0806, PROTO_ICMP = 1, PROTO_TCP = 6 };

static uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static void put16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
    put16(p, v >> 16);
    put16(p + 2, v & 0xffff);
}

uint16_t frame_checksum(const uint8_t *bytes, size_t len, uint32_t start)
{
    uint32_t sum = start;
    for (size_t i = 0; i + 1 < len; i += 2) {
        sum += get16(bytes + i);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    if (len % 2 != 0)
        sum += (uint32_t)bytes[len - 1] << 8;
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

static uint32_t pseudo_sum(uint32_t src, uint32_t dst, size_t len)
{
    return (src >> 16) + (src & 0xffff) + (dst >> 16) + (dst & 0xffff) + PROTO_TCP + (uint32_t)len;
}

static const char *parse_sack(const uint8_t *p, unsigned len, struct frame_opts *opts)
{
    if (len < 10 || (len - 2) % 8 != 0 || (len - 2) / 8 > FRAME_SACK_MAX)
        return "SACK option of a wrong length";
    opts->sack_count = (len - 2) / 8;
    for (unsigned i = 0; i < opts->sack_count; i++) {
        opts->sack[i][0] = get32(p + 2 + 8 * i);
        opts->sack[i][1] = get32(p + 6 + 8 * i);
    }
    return NULL;
}

static const char *parse_option(const uint8_t *p, unsigned len, struct frame_opts *opts)
{
    static const struct {
        uint8_t kind, len;
    } lengths[] = {{2, 4}, {3, 3}, {4, 2}, {8, 10}};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        if (p[0] == lengths[i].kind && len != lengths[i].len)
            return "TCP option of a wrong length";
    if (p[0] == 2) {
        opts->has_mss = 1;
        opts->mss = get16(p + 2);
    } else if (p[0] == 3) {
        opts->has_ws = 1;
        opts->ws = p[2];
    } else if (p[0] == 4) {
        opts->has_sackok = 1;
    } else if (p[0] == 5) {
        return parse_sack(p, len, opts);
    } else if (p[0] == 8) {
        opts->has_ts = 1;
        opts->ts_val = get32(p + 2);
        opts->ts_ecr = get32(p + 6);
    }
    return NULL;
}

static const char *parse_options(const uint8_t *p, size_t len, struct frame_opts *opts)
{
    size_t at = 0;
    while (at < len && p[at] != 0) {
        if (p[at] == 1) {
            at++;
            continue;
        }
        if (at + 2 > len || p[at + 1] < 2 || at + p[at + 1] > len)
            return "malformed TCP options";
        const char *error = parse_option(p + at, p[at + 1], opts);
        if (error)
            return error;
        at += p[at + 1];
    }
    return NULL;
}

static const char *parse_tcp(const uint8_t *p, size_t len, struct frame *f)
{
    if (len < TCP_BYTES)
        return "TCP header cut off";
    size_t header = (size_t)(p[12] >> 4) * 4;
    if (header < TCP_BYTES || header > len)
        return "TCP data offset out of range";
    if ((p[12] & 0x0f) != 0)
        return "reserved TCP bits set";
    if (frame_checksum(p, len, pseudo_sum(f->src_ip, f->dst_ip, len)) != 0)
        return "TCP checksum wrong";
    f->kind = FRAME_TCP;
    f->src_port = get16(p);
    f->dst_port = get16(p + 2);
    f->seq = get32(p + 4);
    f->ack = get32(p + 8);
    f->flags = p[13];
    f->window = get16(p + 14);
    f->urgent = get16(p + 18);
    f->payload = p + header;
    f->len = (uint32_t)(len - header);
    return parse_options(p + TCP_BYTES, header - TCP_BYTES, &f->opts);
}

static const char *parse_icmp(const uint8_t *p, size_t len, struct frame *f)
{
    if (len < ICMP_BYTES)
        return "ICMP header cut off";
    if (frame_checksum(p, len, 0) != 0)
        return "ICMP checksum wrong";
    f->kind = FRAME_ICMP;
    f->icmp_type = p[0];
    f->icmp_code = p[1];
    f->icmp_id = get16(p + 4);
    f->icmp_seq = get16(p + 6);
    f->payload = p + ICMP_BYTES;
    f->len = (uint32_t)(len - ICMP_BYTES);
    return NULL;
}

static const char *parse_ip4(const uint8_t *p, size_t len, struct frame *f)
{
    if (len < IP_BYTES)
        return "IP header cut off";
    size_t header = (size_t)(p[0] & 15) * 4;
    size_t total = get16(p + 2);
    if (p[0] >> 4 != 4 || header < IP_BYTES || header > total)
        return "IP version or header length wrong";
    if (total > len)
        return "IP total length beyond the frame";
    if (len > total && len > 46)
        return "bytes behind the IP packet";
    if (frame_checksum(p, header, 0) != 0)
        return "IP header checksum wrong";
    if (p[8] == 0)
        return "IP time to live is 0";
    f->ip_id = get16(p + 4);
    f->ip_frag = get16(p + 6);
    f->ttl = p[8];
    f->tos = p[1];
    f->src_ip = get32(p + 12);
    f->dst_ip = get32(p + 16);
    if (f->ip_frag & 0x3fff)
        return NULL; /* a fragment: FRAME_OTHER */
    if (p[9] == PROTO_TCP)
        return parse_tcp(p + header, total - header, f);
    if (p[9] == PROTO_ICMP)
        return parse_icmp(p + header, total - header, f);
    return NULL;
}

static const char *parse_arp(const uint8_t *p, size_t len, struct frame *f)
{
    if (len < ARP_BYTES)
        return "ARP packet cut off";
    if (get16(p) != 1 || get16(p + 2) != ETHERTYPE_IP4 || p[4] != 6 || p[5] != 4)
        return "ARP types or lengths wrong";
    f->kind = FRAME_ARP;
    f->arp_op = get16(p + 6);
    memcpy(f->arp_sha, p + 8, 6);
    f->src_ip = get32(p + 14);
    memcpy(f->arp_tha, p + 18, 6);
    f->dst_ip = get32(p + 24);
    return NULL;
}

const char *frame_parse(const uint8_t *bytes, size_t len, struct frame *frame)
{
    memset(frame, 0, sizeof(*frame));
    frame->kind = FRAME_OTHER;
    if (len < ETH_BYTES)
        return "Ethernet header cut off";
    memcpy(frame->dst_mac, bytes, 6);
    memcpy(frame->src_mac, bytes + 6, 6);
    if (get16(bytes + 12) == ETHERTYPE_IP4)
        return parse_ip4(bytes + ETH_BYTES, len - ETH_BYTES, frame);
    if (get16(bytes + 12) == ETHERTYPE_ARP)
        return parse_arp(bytes + ETH_BYTES, len - ETH_BYTES, frame);
    return NULL;
}

static size_t build_options(const struct frame_opts *o, uint8_t *p)
{
    size_t at = 0;
    if (o->has_mss) {
        p[at] = 2, p[at + 1] = 4;
        put16(p + at + 2, o->mss);
        at += 4;
    }
    if (o->has_ws) {
        p[at] = 1, p[at + 1] = 3, p[at + 2] = 3, p[at + 3] = (uint8_t)o->ws;
        at += 4;
    }
    if (o->has_sackok) {
        p[at] = 1, p[at + 1] = 1, p[at + 2] = 4, p[at + 3] = 2;
        at += 4;
    }
    if (o->has_ts) {
        p[at] = 1, p[at + 1] = 1, p[at + 2] = 8, p[at + 3] = 10;
        put32(p + at + 4, o->ts_val);
        put32(p + at + 8, o->ts_ecr);
        at += 12;
    }
    if (o->sack_count > 0) {
        p[at] = 1, p[at + 1] = 1, p[at + 2] = 5, p[at + 3] = (uint8_t)(2 + 8 * o->sack_count);
        at += 4;
        for (unsigned i = 0; i < o->sack_count; i++, at += 8) {
            put32(p + at, o->sack[i][0]);
            put32(p + at + 4, o->sack[i][1]);
        }
    }
    return at;
}

static size_t build_tcp(const struct frame *f, const struct frame_faults *x, uint8_t *p)
{
    size_t options;
    memset(p, 0, TCP_BYTES);
    if (x->opt_bytes) {
        memcpy(p + TCP_BYTES, x->opt_bytes, x->opt_len);
        options = x->opt_len;
        while (options % 4 != 0)
            p[TCP_BYTES + options++] = 1;
    } else {
        options = build_options(&f->opts, p + TCP_BYTES);
    }
    size_t header = TCP_BYTES + options;
    put16(p, f->src_port);
    put16(p + 2, f->dst_port);
    put32(p + 4, f->seq);
    put32(p + 8, f->ack);
    unsigned words = x->tcp_doff ? (unsigned)x->tcp_doff : (unsigned)(header / 4);
    p[12] = (uint8_t)((x->zero_doff ? 0 : words) << 4);
    p[13] = (uint8_t)f->flags;
    put16(p + 14, f->window);
    put16(p + 18, f->urgent);
    if (f->len > 0)
        memcpy(p + header, f->payload, f->len);
    size_t len = header + f->len;
    uint16_t sum = frame_checksum(p, len, pseudo_sum(f->src_ip, f->dst_ip, len));
    put16(p + 16, x->bad_l4_csum ? sum ^ 0x0101u : sum);
    return len;
}

/* The beginning of a segment that dst_ip has sent to src_ip, as an ICMP error carries it. */
static void build_quote(const struct frame *f, uint8_t *p)
{
    memset(p, 0, FRAME_QUOTE_BYTES);
    p[0] = 0x45;
    put16(p + 2, 1500);
    p[8] = 63;
    p[9] = 6;
    put32(p + 12, f->dst_ip);
    put32(p + 16, f->src_ip);
    put16(p + IP_BYTES, f->quote_src_port);
    put16(p + IP_BYTES + 2, f->quote_dst_port);
    put32(p + IP_BYTES + 4, f->quote_seq);
}

static size_t build_icmp(const struct frame *f, const struct frame_faults *x, uint8_t *p)
{
    memset(p, 0, ICMP_BYTES);
    p[0] = (uint8_t)f->icmp_type;
    p[1] = (uint8_t)f->icmp_code;
    put16(p + 4, f->icmp_id);
    put16(p + 6, f->icmp_seq);
    if (f->quoted)
        build_quote(f, p + ICMP_BYTES);
    else if (f->len > 0)
        memcpy(p + ICMP_BYTES, f->payload, f->len);
    uint16_t sum = frame_checksum(p, ICMP_BYTES + f->len, 0);
    put16(p + 2, x->bad_l4_csum ? sum ^ 0x0101u : sum);
    return ICMP_BYTES + f->len;
}

static size_t build_ip4(const struct frame *f, const struct frame_faults *x, uint8_t *p)
{
    size_t header = IP_BYTES + (size_t)x->ip_opts;
    size_t body = f->kind == FRAME_TCP ? build_tcp(f, x, p + header) : build_icmp(f, x, p + header);
    memset(p, 0, IP_BYTES);
    memset(p + IP_BYTES, 1, (size_t)x->ip_opts);
    unsigned words = x->ip_ihl ? (unsigned)x->ip_ihl : (unsigned)(header / 4);
    p[0] = (uint8_t)((x->ip_ver ? x->ip_ver : 4) << 4 | (x->zero_ihl ? 0 : (int)words));
    put16(p + 2, x->ip_len ? (unsigned)x->ip_len : (unsigned)(header + body));
    put16(p + 4, f->ip_id);
    put16(p + 6, f->ip_frag);
    p[8] = (uint8_t)f->ttl;
    p[1] = (uint8_t)f->tos;
    p[9] = f->kind == FRAME_TCP ? PROTO_TCP : PROTO_ICMP;
    put32(p + 12, f->src_ip);
    put32(p + 16, f->dst_ip);
    uint16_t sum = frame_checksum(p, header, 0);
    put16(p + 10, x->bad_ip_csum ? sum ^ 0x0101u : sum);
    return header + body;
}

static size_t build_arp(const struct frame *f, uint8_t *p)
{
    put16(p, 1);
    put16(p + 2, ETHERTYPE_IP4);
    p[4] = 6, p[5] = 4;
    put16(p + 6, f->arp_op);
    memcpy(p + 8, f->arp_sha, 6);
    put32(p + 14, f->src_ip);
    memcpy(p + 18, f->arp_tha, 6);
    put32(p + 24, f->dst_ip);
    return ARP_BYTES;
}

size_t frame_build(const struct frame *frame, const struct frame_faults *faults, uint8_t *out)
{
    size_t len;
    memcpy(out, frame->dst_mac, 6);
    memcpy(out + 6, frame->src_mac, 6);
    put16(out + 12, frame->kind == FRAME_ARP ? ETHERTYPE_ARP : ETHERTYPE_IP4);
    if (frame->kind == FRAME_ARP)
        len = ETH_BYTES + build_arp(frame, out + ETH_BYTES);
    else
        len = ETH_BYTES + build_ip4(frame, faults, out + ETH_BYTES);
    memset(out + len, 0xee, (size_t)faults->pad);
    len += (size_t)faults->pad;
    if (faults->cut > 0 && (size_t)faults->cut < len)
        len = (size_t)faults->cut;
    return len;
}

void frame_fix_checksums(uint8_t *bytes, size_t len)
{
    uint8_t *ip = bytes + ETH_BYTES;
    if (len < ETH_BYTES + IP_BYTES || get16(bytes + 12) != ETHERTYPE_IP4)
        return;
    size_t header = (size_t)(ip[0] & 15) * 4;
    size_t total = get16(ip + 2);
    if (total + ETH_BYTES > len || header + TCP_BYTES > total || ip[9] != PROTO_TCP)
        return;
    put16(ip + 10, 0);
    put16(ip + 10, frame_checksum(ip, header, 0));
    uint8_t *tcp = ip + header;
    uint32_t sum = pseudo_sum(get32(ip + 12), get32(ip + 16), total - header);
    put16(tcp + 16, 0);
    put16(tcp + 16, frame_checksum(tcp, total - header, sum));
}

struct text {
    char *at;
    size_t room;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->at, t->room, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < t->room) {
        t->at += n;
        t->room -= (size_t)n;
    }
}

static void add_ip(struct text *t, uint32_t ip)
{
    add(t, "%u.%u.%u.%u", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
}

static void add_options(struct text *t, const struct frame_opts *o, uint32_t sack_base)
{
    add(t, " <");
    if (o->has_mss)
        add(t, "mss %u,", o->mss);
    if (o->has_ws)
        add(t, "ws %u,", o->ws);
    if (o->has_sackok)
        add(t, "sackok,");
    if (o->has_ts)
        add(t, "ts %u %u,", o->ts_val, o->ts_ecr);
    for (unsigned i = 0; i < o->sack_count; i++)
        add(t, "sack %d:%d,", (int)(o->sack[i][0] - sack_base), (int)(o->sack[i][1] - sack_base));
    add(t, ">");
}

static void describe_tcp(const struct frame *f, uint32_t seq_base, uint32_t ack_base,
                         struct text *t)
{
    static const char letters[] = "FSRPAUEW";
    char flags[9];
    unsigned n = 0;
    for (unsigned i = 0; i < 8; i++)
        if (f->flags & 1u << i)
            flags[n++] = letters[i];
    flags[n] = '\0';
    uint32_t seq = f->seq - seq_base;
    add(t, "%s %d:%d(%u)", n > 0 ? flags : "-", (int)seq, (int)(seq + (uint32_t)f->len), f->len);
    if (f->flags & TCP_ACK)
        add(t, " ack %d", (int)(f->ack - ack_base));
    add(t, " win %u", f->window);
    add_options(t, &f->opts, ack_base);
    add(t, " [");
    add_ip(t, f->src_ip);
    add(t, ":%u > ", f->src_port);
    add_ip(t, f->dst_ip);
    add(t, ":%u]", f->dst_port);
}

void frame_describe(const struct frame *frame, uint32_t seq_base, uint32_t ack_base, char *text,
                    size_t room)
{
    struct text t = {text, room};
    text[0] = '\0';
    if (frame->kind == FRAME_TCP) {
        describe_tcp(frame, seq_base, ack_base, &t);
        return;
    }
    if (frame->kind == FRAME_ARP)
        add(&t, "arp %s", frame->arp_op == 1 ? "request" : "reply");
    else if (frame->kind == FRAME_ICMP)
        add(&t, "icmp %u %u id %u seq %u len %u", frame->icmp_type, frame->icmp_code,
            frame->icmp_id, frame->icmp_seq, frame->len);
    else
        add(&t, "other");
    add(&t, " from ");
    add_ip(&t, frame->src_ip);
    add(&t, " to ");
    add_ip(&t, frame->dst_ip);
}
