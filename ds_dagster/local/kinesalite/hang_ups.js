// Loaded before the server: it throws what a request fails with, and a client that hangs up before its answer (an
// engine that is killed, a read that timed out) fails its request; the server then ends for everybody.
const http = require('http')
const createServer = http.createServer

http.createServer = (handle) =>
  createServer((request, response) => {
    handle(request, response)
    request.removeAllListeners('error').on('error', () => {})
  })
