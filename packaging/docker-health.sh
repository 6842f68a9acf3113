#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Asks the server for its version. HEALTH_PORT=N in the environment: another port than 11211.
exec 3<>"/dev/tcp/127.0.0.1/${HEALTH_PORT:-11211}" || exit 1
printf 'version\r\n' >&3
read -r -t 2 answer <&3 && [[ $answer == VERSION* ]]
