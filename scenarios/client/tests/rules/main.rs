//! The rules of Kafka's clients, one test each, in the tank against scripted agents. Names and comments cite the section of
//! the specification (kafka.md 5 to 7) that a test holds the model to. Rules that need no wire are tested where they are.

mod admin;
mod close;
mod consumer;
mod franz_go;
mod network;
mod producer;
mod resend;
mod scripted;
mod sequences;
