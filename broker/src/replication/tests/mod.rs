//! Brokers that follow one another over real sockets.
