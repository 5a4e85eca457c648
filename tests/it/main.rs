mod around;
