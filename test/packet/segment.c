/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames in packet scripts, both directions. See segment.h and README.md. */
#include "segment.h"

#include <stdlib.h>
#include <string.h>

struct rig_flow *segment_flow(struct script *s)
{
    const char *word = script_peek(s);
    unsigned number = 1;
    if (word && word[0] == '@')
        number = (unsigned)script_to_number(s, script_next(s) + 1);
    return rig_flow(&s->rig, number);
}

static unsigned parse_flags(struct script *s, const char *word)
{
    static const char letters[] = "FSRPAUEW";
    unsigned flags = 0;
    if (strcmp(word, "-") == 0)
        return 0;
    for (; *word != '\0'; word++) {
        const char *at = strchr(letters, *word);
        if (!at)
            script_fail(s, "'%c' is not a TCP flag", *word);
        flags |= 1u << (at - letters);
    }
    return flags;
}

/* "first:last(length)", all decimal. */
static void parse_range(struct script *s, const char *word, long *first, long *length)
{
    long long from, to, bytes; /* beyond a long of 32 bits, where sequence numbers wrap */
    char rest;
    if (sscanf(word, "%lld:%lld(%lld)%c", &from, &to, &bytes, &rest) != 3 || to != from + bytes)
        script_fail(s, "\"%s\" is not a range like 1:101(100)", word);
    *first = (long)from;
    *length = (long)bytes;
}

/* ---- injected frames --------------------------------------------------------------------- */

static uint32_t now_ts(const struct script *s)
{
    return (uint32_t)(s->rig.now_us / 1000);
}

static void parse_option(struct script *s, struct rig_flow *flow, char *text, struct frame_opts *o)
{
    char *words[3] = {NULL, NULL, NULL};
    char *rest;
    unsigned n = 0;
    for (char *w = strtok_r(text, " ", &rest); w && n < 3; w = strtok_r(NULL, " ", &rest))
        words[n++] = w;
    if (n == 2 && strcmp(words[0], "mss") == 0) {
        o->has_mss = 1;
        o->mss = (unsigned)script_to_number(s, words[1]);
    } else if (n == 2 && strcmp(words[0], "ws") == 0) {
        o->has_ws = 1;
        o->ws = (unsigned)script_to_number(s, words[1]);
    } else if (n == 1 && strcmp(words[0], "sackok") == 0) {
        o->has_sackok = 1;
    } else if (n == 3 && strcmp(words[0], "ts") == 0) {
        o->has_ts = 1;
        o->ts_val =
            strcmp(words[1], "now") == 0 ? now_ts(s) : (uint32_t)script_to_number(s, words[1]);
        o->ts_ecr = strcmp(words[2], "last") == 0    ? flow->stack_ts
                    : strcmp(words[2], "first") == 0 ? flow->data_ts
                                                     : (uint32_t)script_to_number(s, words[2]);
    } else if (n == 2 && strcmp(words[0], "sack") == 0 && o->sack_count < FRAME_SACK_MAX) {
        long first, last;
        if (sscanf(words[1], "%ld:%ld", &first, &last) != 2)
            script_fail(s, "\"%s\" is not a SACK block", words[1]);
        o->sack[o->sack_count][0] = flow->stack_isn + (uint32_t)first;
        o->sack[o->sack_count++][1] = flow->stack_isn + (uint32_t)last;
    } else if (n != 1 || strcmp(words[0], "none") != 0) {
        script_fail(s, "unknown TCP option \"%s\"", text);
    }
}

static void parse_options(struct script *s, struct rig_flow *flow, const char *word,
                          struct frame_opts *o)
{
    char text[400];
    snprintf(text, sizeof(text), "%s", word + 1);
    text[strcspn(text, ">")] = '\0';
    for (char *p = text; p && *p != '\0';) {
        char *comma = strchr(p, ',');
        if (comma)
            *comma++ = '\0';
        parse_option(s, flow, p, o);
        p = comma;
    }
}

static unsigned parse_hex(struct script *s, const char *word, uint8_t *bytes, unsigned room)
{
    unsigned n = 0;
    for (; word[0] != '\0' && word[1] != '\0'; word += 2) {
        unsigned byte;
        if (n == room || sscanf(word, "%2x", &byte) != 1)
            script_fail(s, "\"%s\" is not hexadecimal, or too long", word);
        bytes[n++] = (uint8_t)byte;
    }
    return n;
}

/* Fields of all kinds of frames: addresses, faults, checksum verdicts of the NIC. */
struct building {
    struct frame frame;
    struct frame_faults faults;
    u_u32 verdict;
    uint8_t opt_bytes[40];
    long piece_first; /* of the IP packet's payload only these bytes are sent, as a fragment */
    long piece_length;
    int no_ts;
    int wrong_payload;
};

static int accept_value(struct script *s, const char *name, int *value)
{
    if (!script_accept(s, name))
        return 0;
    *value = (int)script_number(s, name);
    return 1;
}

static int modifier_address(struct script *s, struct building *b)
{
    if (script_accept(s, "src_ip"))
        b->frame.src_ip = script_to_ip(s, script_need(s, "address"));
    else if (script_accept(s, "dst_ip"))
        b->frame.dst_ip = script_to_ip(s, script_need(s, "address"));
    else if (script_accept(s, "src_mac"))
        script_to_mac(s, script_need(s, "MAC"), b->frame.src_mac);
    else if (script_accept(s, "dst_mac"))
        script_to_mac(s, script_need(s, "MAC"), b->frame.dst_mac);
    else if (script_accept(s, "src_port"))
        b->frame.src_port = (uint16_t)script_number(s, "port");
    else if (script_accept(s, "dst_port"))
        b->frame.dst_port = (uint16_t)script_number(s, "port");
    else
        return 0;
    return 1;
}

static int modifier_fault(struct script *s, struct building *b)
{
    struct frame_faults *x = &b->faults;
    int value;
    if (accept_value(s, "cut", &x->cut) || accept_value(s, "pad", &x->pad) ||
        accept_value(s, "ip_len", &x->ip_len) || accept_value(s, "ip_ver", &x->ip_ver) ||
        accept_value(s, "ip_opts", &x->ip_opts))
        return 1;
    if (accept_value(s, "ihl", &x->ip_ihl)) {
        x->zero_ihl = x->ip_ihl == 0;
    } else if (accept_value(s, "doff", &x->tcp_doff)) {
        x->zero_doff = x->tcp_doff == 0;
    } else if (accept_value(s, "frag", &value)) {
        b->frame.ip_frag = (unsigned)value;
    } else if (accept_value(s, "ttl", &value)) {
        b->frame.ttl = (unsigned)value;
    } else if (accept_value(s, "tos", &value)) {
        b->frame.tos = (unsigned)value;
    } else if (accept_value(s, "urg", &value)) {
        b->frame.urgent = (unsigned)value;
    } else if (script_accept(s, "piece")) {
        parse_range(s, script_need(s, "range"), &b->piece_first, &b->piece_length);
    } else if (script_accept(s, "opt")) {
        x->opt_len = parse_hex(s, script_need(s, "options"), b->opt_bytes, sizeof(b->opt_bytes));
        x->opt_bytes = b->opt_bytes;
    } else if (script_accept(s, "bad_csum")) {
        x->bad_l4_csum = 1;
    } else if (script_accept(s, "bad_ip_csum")) {
        x->bad_ip_csum = 1;
    } else if (script_accept(s, "wrong_payload")) {
        b->wrong_payload = 1;
    } else if (script_accept(s, "no_ts")) {
        b->no_ts = 1;
    } else {
        return 0;
    }
    return 1;
}

static int modifier_verdict(struct script *s, struct building *b)
{
    static const struct {
        const char *name;
        u_u32 flag;
    } verdicts[] = {{"ip_good", US_PKT_IP_CSUM_GOOD},
                    {"ip_bad", US_PKT_IP_CSUM_BAD},
                    {"l4_good", US_PKT_L4_CSUM_GOOD},
                    {"l4_bad", US_PKT_L4_CSUM_BAD}};
    for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
        if (script_accept(s, verdicts[i].name)) {
            b->verdict |= verdicts[i].flag;
            return 1;
        }
    }
    return 0;
}

static void parse_modifiers(struct script *s, struct building *b)
{
    while (modifier_address(s, b) || modifier_fault(s, b) || modifier_verdict(s, b))
        ;
    script_end(s);
}

/* Leaves a piece of an IPv4 packet: RFC 791 3.2. */
static size_t cut_piece(const struct building *b, uint8_t *bytes, size_t len)
{
    uint8_t *ip = bytes + 14;
    size_t header = (size_t)(ip[0] & 15) * 4;
    size_t first = (size_t)b->piece_first;
    size_t length = (size_t)b->piece_length;
    unsigned more = 14 + header + first + length < len;
    unsigned fragment = more << 13 | (unsigned)(first / 8);
    memmove(ip + header, ip + header + first, length);
    ip[2] = (uint8_t)((header + length) >> 8);
    ip[3] = (uint8_t)(header + length);
    ip[4] = 0;
    ip[5] = 77; /* all fragments belong together */
    ip[6] = (uint8_t)(fragment >> 8);
    ip[7] = (uint8_t)fragment;
    ip[10] = ip[11] = 0;
    uint16_t sum = frame_checksum(ip, header, 0);
    ip[10] = (uint8_t)(sum >> 8);
    ip[11] = (uint8_t)sum;
    return 14 + header + length;
}

/* Also what depends on the modifiers: the payload's place in the stream is known only now. */
static struct rig_in finish(struct script *s, struct building *b, uint32_t payload_offset)
{
    struct rig_in in;
    static uint8_t payload[FRAME_BYTES_MAX];
    for (uint32_t i = 0; i < b->frame.len; i++)
        payload[i] = rig_pattern(1, payload_offset + i) ^ (b->wrong_payload ? 0x55u : 0u);
    b->frame.payload = payload;
    static uint8_t room[FRAME_BYTES_MAX * 2];
    in.len = frame_build(&b->frame, &b->faults, room);
    if (b->piece_length > 0)
        in.len = cut_piece(b, room, in.len);
    in.bytes = malloc(in.len);
    memcpy(in.bytes, room, in.len);
    in.flags = b->verdict;
    return in;
}

static struct rig_in build_tcp(struct script *s, struct building *b, struct rig_flow *flow)
{
    struct frame *f = &b->frame;
    long first = 1;
    long length = 0;
    f->kind = FRAME_TCP;
    f->src_port = flow->peer_port;
    f->dst_port = flow->local_port;
    f->flags = parse_flags(s, script_need(s, "flags"));
    parse_range(s, script_need(s, "sequence range"), &first, &length);
    f->seq = flow->peer_isn + (uint32_t)first;
    f->len = (uint32_t)length;
    if (script_accept(s, "ack"))
        f->ack = flow->stack_isn + (uint32_t)script_number(s, "acknowledgment number");
    if (script_accept(s, "win"))
        flow->window = (unsigned)script_number(s, "window");
    f->window = flow->window;
    int has_options = script_peek(s) && script_peek(s)[0] == '<';
    if (has_options)
        parse_options(s, flow, script_next(s), &f->opts);
    parse_modifiers(s, b);
    int auto_ts = flow->peer_syn_ts && flow->stack_syn_ts && !(f->flags & (TCP_SYN | TCP_RST));
    if (auto_ts && !b->no_ts && !f->opts.has_ts) {
        f->opts.has_ts = 1;
        f->opts.ts_val = now_ts(s);
        f->opts.ts_ecr = flow->stack_ts;
    }
    return finish(s, b, (uint32_t)first - 1);
}

static struct rig_in build_icmp(struct script *s, struct building *b, const struct rig_flow *flow)
{
    struct frame *f = &b->frame;
    f->kind = FRAME_ICMP;
    f->icmp_type = (unsigned)script_number(s, "ICMP type");
    f->icmp_code = (unsigned)script_number(s, "ICMP code");
    if (script_accept(s, "id"))
        f->icmp_id = (unsigned)script_number(s, "id");
    if (script_accept(s, "seq"))
        f->icmp_seq = (unsigned)script_number(s, "seq");
    if (script_accept(s, "len"))
        f->len = (uint32_t)script_number(s, "len");
    if (script_accept(s, "quote")) { /* a segment of the flow; `seq` is where an MTU stands */
        f->quoted = 1;
        f->quote_src_port = flow->local_port;
        f->quote_dst_port = flow->peer_port;
        f->quote_seq = flow->stack_isn + (uint32_t)script_number(s, "sequence number");
        f->len = FRAME_QUOTE_BYTES;
    }
    parse_modifiers(s, b);
    return finish(s, b, 0);
}

static struct rig_in build_arp(struct script *s, struct building *b)
{
    static const uint8_t broadcast[6] = {255, 255, 255, 255, 255, 255};
    struct frame *f = &b->frame;
    f->kind = FRAME_ARP;
    if (script_accept(s, "op"))
        f->arp_op = (unsigned)script_number(s, "op");
    else
        f->arp_op = script_accept(s, "request") ? 1 : 2;
    if (f->arp_op == 1)
        memcpy(f->dst_mac, broadcast, 6);
    if (f->arp_op == 2)
        script_accept(s, "reply");
    if (script_accept(s, "from"))
        f->src_ip = script_to_ip(s, script_need(s, "address"));
    if (script_accept(s, "to"))
        f->dst_ip = script_to_ip(s, script_need(s, "address"));
    parse_modifiers(s, b);
    memcpy(f->arp_sha, f->src_mac, 6);
    if (f->arp_op == 2)
        memcpy(f->arp_tha, s->rig.config.mac, 6);
    return finish(s, b, 0);
}

struct rig_in segment_build(struct script *s)
{
    struct building b;
    struct rig_flow *flow = segment_flow(s);
    memset(&b, 0, sizeof(b));
    memcpy(b.frame.src_mac, flow->peer_mac, 6);
    memcpy(b.frame.dst_mac, s->rig.config.mac, 6);
    b.frame.src_ip = flow->peer_ip;
    b.frame.dst_ip = s->rig.local_ip;
    b.frame.ttl = 64;
    b.frame.ip_frag = 0x4000;
    if (script_accept(s, "raw")) {
        uint8_t bytes[1600];
        unsigned n = 0;
        while (script_peek(s))
            n += parse_hex(s, script_next(s), bytes + n, (unsigned)sizeof(bytes) - n);
        struct rig_in in = {malloc(n + 1), n, 0};
        memcpy(in.bytes, bytes, n);
        return in;
    }
    if (script_accept(s, "icmp"))
        return build_icmp(s, &b, flow);
    if (script_accept(s, "arp"))
        return build_arp(s, &b);
    return build_tcp(s, &b, flow);
}

/* ---- expected frames --------------------------------------------------------------------- */

static void mismatch(struct script *s, const struct rig_out *out, const char *what)
{
    char text[400];
    rig_describe(out, text, sizeof(text));
    script_fail(s, "%s is not as expected; the stack sent: %s", what, text);
}

static int value_is(struct script *s, const char *word, uint32_t value)
{
    return word && (strcmp(word, "*") == 0 || (uint32_t)script_to_number(s, word) == value);
}

/* Takes one expected option off `have`; returns 0 if it is not there or has another value. */
static int expect_option(struct script *s, const struct rig_flow *flow, char *text,
                         struct frame_opts *have, unsigned *sacks)
{
    char *words[3] = {NULL, NULL, NULL};
    char *rest;
    unsigned n = 0;
    long first, last;
    for (char *w = strtok_r(text, " ", &rest); w && n < 3; w = strtok_r(NULL, " ", &rest))
        words[n++] = w;
    if (n == 0 || strcmp(words[0], "none") == 0)
        return 1;
    if (strcmp(words[0], "mss") == 0)
        return have->has_mss-- && value_is(s, words[1], have->mss);
    if (strcmp(words[0], "ws") == 0)
        return have->has_ws-- && value_is(s, words[1], have->ws);
    if (strcmp(words[0], "sackok") == 0)
        return have->has_sackok--;
    if (strcmp(words[0], "ts") == 0)
        return have->has_ts-- && value_is(s, words[1], have->ts_val) &&
               value_is(s, words[2], have->ts_ecr);
    if (strcmp(words[0], "sack") == 0 && words[1] &&
        sscanf(words[1], "%ld:%ld", &first, &last) == 2) {
        const uint32_t *block = have->sack[(*sacks)++];
        return *sacks <= have->sack_count && block[0] == flow->peer_isn + (uint32_t)first &&
               block[1] == flow->peer_isn + (uint32_t)last;
    }
    script_fail(s, "unknown TCP option \"%s\"", words[0]);
}

static int options_match(struct script *s, const struct rig_flow *flow, const char *word,
                         struct frame_opts have)
{
    char text[400];
    unsigned sacks = 0;
    snprintf(text, sizeof(text), "%s", word + 1);
    text[strcspn(text, ">")] = '\0';
    for (char *p = text; p && *p != '\0';) {
        char *comma = strchr(p, ',');
        if (comma)
            *comma++ = '\0';
        if (!expect_option(s, flow, p, &have, &sacks))
            return 0;
        p = comma;
    }
    return !have.has_mss && !have.has_ws && !have.has_sackok && !have.has_ts &&
           sacks == have.sack_count;
}

/* Flags like "FA", or alternatives like "R|RA". */
static void expect_flags(struct script *s, const struct rig_out *out, const char *word)
{
    char text[64];
    char *rest;
    snprintf(text, sizeof(text), "%s", word);
    for (char *one = strtok_r(text, "|", &rest); one; one = strtok_r(NULL, "|", &rest)) {
        unsigned flags = parse_flags(s, one);
        unsigned have = out->frame.flags;
        if (!(flags & TCP_PSH)) /* PSH is looked at only where the script names it */
            have &= ~(unsigned)TCP_PSH;
        if (have == flags)
            return;
    }
    mismatch(s, out, "the set of flags");
}

/* What a segment carries beside itself: requests to the NIC, the next hop. */
static void expect_extras(struct script *s, const struct rig_out *out)
{
    const struct frame *f = &out->frame;
    if (script_accept(s, "tso") &&
        (!(out->flags & US_PKT_TX_TSO) || out->tso_mss != (unsigned)script_number(s, "MSS")))
        mismatch(s, out, "the request for TSO");
    if (script_accept(s, "segments") && out->segments != (unsigned)script_number(s, "segments"))
        mismatch(s, out, "the number of segments of memory");
    if (script_accept(s, "ip_csum_offload") && !(out->flags & US_PKT_TX_IP_CSUM))
        mismatch(s, out, "the request for an IP checksum");
    if (script_accept(s, "l4_csum_offload") && !(out->flags & US_PKT_TX_L4_CSUM))
        mismatch(s, out, "the request for a TCP checksum");
    if (script_accept(s, "no_offload") &&
        out->flags & (US_PKT_TX_IP_CSUM | US_PKT_TX_L4_CSUM | US_PKT_TX_TSO))
        mismatch(s, out, "the absence of offload requests");
    if (script_accept(s, "to_mac")) {
        uint8_t mac[6];
        script_to_mac(s, script_need(s, "MAC"), mac);
        if (memcmp(mac, f->dst_mac, 6) != 0)
            mismatch(s, out, "the destination MAC");
    }
    if (script_accept(s, "tos") && f->tos != (unsigned)script_number(s, "tos"))
        mismatch(s, out, "the type of service");
}

static void expect_tcp(struct script *s, const struct rig_out *out, const struct rig_flow *flow)
{
    const struct frame *f = &out->frame;
    if (f->kind != FRAME_TCP || out->flow != flow)
        mismatch(s, out, "the kind of frame or its flow");
    expect_flags(s, out, script_need(s, "flags"));
    const char *range = script_peek(s);
    if (range && strchr(range, ':') && range[0] != '<') {
        long first, length;
        parse_range(s, script_next(s), &first, &length);
        uint32_t base = flow->isn_known ? flow->stack_isn : 0;
        if (f->seq != base + (uint32_t)first || f->len != (uint32_t)length)
            mismatch(s, out, "the sequence range");
    }
    if (script_accept(s, "ack")) {
        uint32_t ack = flow->peer_isn + (uint32_t)script_number(s, "acknowledgment number");
        if (f->ack != ack)
            mismatch(s, out, "the acknowledgment number");
    }
    if (script_accept(s, "win")) {
        const char *op = script_need(s, "comparison or window");
        const char *value = script_peek(s);
        int same = strchr("=<>!", op[0]) != NULL;
        if (!script_compare(s, f->window, same ? op : "=",
                            (double)script_to_number(s, same && value ? script_next(s) : op)))
            mismatch(s, out, "the window");
    }
    if (script_peek(s) && script_peek(s)[0] == '<' &&
        !options_match(s, flow, script_next(s), f->opts))
        mismatch(s, out, "the set of options");
    expect_extras(s, out);
}

static void expect_arp(struct script *s, const struct rig_out *out)
{
    const struct frame *f = &out->frame;
    if (f->kind != FRAME_ARP)
        mismatch(s, out, "the kind of frame");
    unsigned op = script_accept(s, "request") ? 1 : 2;
    if (op == 2)
        script_accept(s, "reply");
    if (f->arp_op != op || memcmp(f->arp_sha, s->rig.config.mac, 6) != 0)
        mismatch(s, out, "the ARP operation or sender");
    if (script_accept(s, "from") && f->src_ip != script_to_ip(s, script_need(s, "address")))
        mismatch(s, out, "the ARP sender's address");
    if (script_accept(s, "to") && f->dst_ip != script_to_ip(s, script_need(s, "address")))
        mismatch(s, out, "the ARP target's address");
    if (script_accept(s, "to_mac")) {
        uint8_t mac[6];
        script_to_mac(s, script_need(s, "MAC"), mac);
        if (memcmp(mac, f->dst_mac, 6) != 0)
            mismatch(s, out, "the destination MAC");
    }
}

static void expect_icmp(struct script *s, const struct rig_out *out)
{
    const struct frame *f = &out->frame;
    if (f->kind != FRAME_ICMP)
        mismatch(s, out, "the kind of frame");
    if (f->icmp_type != (unsigned)script_number(s, "type") ||
        f->icmp_code != (unsigned)script_number(s, "code"))
        mismatch(s, out, "the ICMP type or code");
    if (script_accept(s, "id") && f->icmp_id != (unsigned)script_number(s, "id"))
        mismatch(s, out, "the ICMP id");
    if (script_accept(s, "seq") && f->icmp_seq != (unsigned)script_number(s, "seq"))
        mismatch(s, out, "the ICMP sequence number");
    if (!script_accept(s, "len"))
        return;
    if (f->len != (uint32_t)script_number(s, "len"))
        mismatch(s, out, "the ICMP length");
    for (uint32_t i = 0; i < f->len; i++)
        if (f->payload[i] != rig_pattern(1, i))
            mismatch(s, out, "the ICMP payload");
}

void segment_expect(struct script *s, const struct rig_out *out)
{
    const struct rig_flow *flow = segment_flow(s);
    if (script_accept(s, "arp"))
        expect_arp(s, out);
    else if (script_accept(s, "icmp"))
        expect_icmp(s, out);
    else
        expect_tcp(s, out, flow);
    script_end(s);
}
