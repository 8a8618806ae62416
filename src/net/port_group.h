// port_group: the listening sockets that several processes have on one port (SO_REUSEPORT). The
// system spreads new connections over them; a socket that is closed resets those in its queue and
// those in the middle of their handshake. So a process that leaves has them steered past it first.
#pragma once

#include <cstddef>

#include "net/socket.h"

namespace pgweir::net {

/// How many listening sockets there are at the address of this one, itself included; 0 when the
/// system does not tell.
std::size_t group_size(int socket);

/// New connections go to the socket of that number. The system counts them as they came and fills a
/// gap with the last one, so nobody knows his own number: a connection of one's own finds it out.
bool steer_to(int socket, std::size_t number) noexcept;
/// New connections go to all but that number, evenly. This stays when the socket is gone; then the
/// number of the last one leads nowhere, for which the system falls back to its own choice.
bool steer_past(int socket, std::size_t number, std::size_t size) noexcept;
/// The system's own choice again.
void stop_steering(int socket) noexcept;

/// A connection to the address that `socket` listens on, with the sender's own address; without one
/// when it does not stand at once. Closing it resets it.
struct Probe {
  Fd connection;
  SocketAddress from;
};
Probe knock_at_own_port(int socket) noexcept;

}  // namespace pgweir::net
