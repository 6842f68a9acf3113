#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# As in memcached's image: options alone mean the server.
set -e
case "${1-}" in
-* | '') set -- ucached "$@" ;;
esac
exec "$@"
