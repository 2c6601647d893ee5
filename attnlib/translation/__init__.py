"""Chinese and English sentences from a small grammar, with gold links from word to word."""
