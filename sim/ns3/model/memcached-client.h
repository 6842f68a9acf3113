/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of memcached's text protocol as an ns-3 application, over any TCP of ns-3. */
#ifndef NS3_MEMCACHED_CLIENT_H
#define NS3_MEMCACHED_CLIENT_H

#include <deque>
#include <string>

#include "ns3/application.h"
#include "ns3/event-id.h"
#include "ns3/random-variable-stream.h"
#include "ns3/socket.h"
#include "ns3/traced-callback.h"

namespace ns3
{

/**
 * Stores its keys, then gets them, and checks every byte of every reply. Closed loop: Outstanding
 * requests at a time. Open loop, with an Interval above 0: a request after each interval, whether
 * replies have come or not.
 */
class MemcachedClient : public Application
{
  public:
    static TypeId GetTypeId();

    MemcachedClient();
    ~MemcachedClient() override;

    /** The stream of random numbers that choose keys; returns 1. */
    int64_t AssignStreams(int64_t stream);

    /** With ByHand: sends one request. */
    void AskOnce();

    /** Replies that were complete and right. */
    uint64_t GetReplies() const;

    /** Bytes of values in them. */
    uint64_t GetBytes() const;

    /**
     * Replies that were wrong (the client closes the connection with the first), and connections
     * that failed or that the server ended before all requests were answered.
     */
    uint64_t GetErrors() const;

    /** Whether all requests are answered. */
    bool IsDone() const;

    /** A request is complete: the time that it took. */
    using LatencyCallback = void (*)(Time latency);

  protected:
    void DoDispose() override;

  private:
    struct Request {
        uint32_t key;
        bool isSet;
        Time sent;
    };

    void StartApplication() override;
    void StopApplication() override;
    void Connected(Ptr<Socket> socket);
    void Failed(Ptr<Socket> socket);
    void Closed(Ptr<Socket> socket);
    void Readable(Ptr<Socket> socket);
    void Writable(Ptr<Socket> socket, uint32_t room);
    void Ask();
    void Fill();
    void Flush();
    void Parse();
    bool TakeReply(const Request &request);
    std::string Value(uint32_t key) const;
    std::string Key(uint32_t key) const;

    Address m_remote;
    TypeId m_protocol;
    uint32_t m_requests{0};
    uint32_t m_outstanding{0};
    uint32_t m_keys{0};
    uint32_t m_valueBytes{0};
    Time m_interval;
    bool m_byHand{false};
    bool m_stopped{false}; //!< the client has ended the connection
    Ptr<UniformRandomVariable> m_random;

    Ptr<Socket> m_socket;
    std::deque<Request> m_waiting;
    std::string m_in;
    std::string m_out;
    std::string m_prefix; //!< of its keys: no two clients share one
    uint32_t m_asked{0};
    uint64_t m_replies{0};
    uint64_t m_bytes{0};
    uint64_t m_errors{0};
    EventId m_next;
    TracedCallback<Time> m_latency;
};

} // namespace ns3

#endif
