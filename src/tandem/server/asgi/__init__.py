"""What every route shares: who may connect, how much they may send, and how answers leave."""
